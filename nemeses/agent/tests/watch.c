// Says, for each line it reads, what each function of the C library tells of the time of day, in
// nanoseconds. With `spin=N`, N threads do nothing but tell the time meanwhile, and a signal interrupts
// them a thousand times a second, to tell the time once more. With `fork`, a child of it answers.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *spin(void *unused) {
    struct timespec spec;
    struct timeval val;
    (void)unused;
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &spec);
        gettimeofday(&val, NULL);
        time(NULL);
    }
}

static void interrupted(int unused) {
    struct timespec spec;
    (void)unused;
    clock_gettime(CLOCK_REALTIME, &spec);
}

static void spin_threads(int threads) {
    struct sigaction action = {.sa_handler = interrupted, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (; threads > 0; threads--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, spin, NULL) != 0)
            exit(1);
    }
}

static void tell(void) {
    struct timespec fine, coarse;
    struct timeval val;
    clock_gettime(CLOCK_REALTIME, &fine);
    gettimeofday(&val, NULL);
    clock_gettime(CLOCK_REALTIME_COARSE, &coarse);
    printf("%lld %lld %lld %lld\n", fine.tv_sec * 1000000000LL + fine.tv_nsec,
           val.tv_sec * 1000000000LL + val.tv_usec * 1000LL,
           coarse.tv_sec * 1000000000LL + coarse.tv_nsec, time(NULL) * 1000000000LL);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strncmp(mode, "spin=", 5) == 0)
        spin_threads(atoi(mode + 5));
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n')
            continue;
        if (strcmp(mode, "fork") != 0) {
            tell();
        } else if (fork() == 0) {
            tell();
            _exit(0);
        } else {
            wait(NULL);
        }
    }
    return 0;
}
