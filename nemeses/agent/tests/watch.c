// Says, for each line it reads, what each function of the C library tells of the time of day, in
// nanoseconds. Meanwhile as many threads as its argument says do nothing but tell the time, and a
// signal interrupts them a thousand times a second, to tell the time once more.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

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

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = interrupted, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int n = argc > 1 ? atoi(argv[1]) : 0; n > 0; n--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, spin, NULL) != 0)
            return 1;
    }
    for (int c; (c = getchar()) != EOF;) {
        struct timespec fine, coarse;
        struct timeval val;
        if (c != '\n')
            continue;
        clock_gettime(CLOCK_REALTIME, &fine);
        gettimeofday(&val, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &coarse);
        printf("%lld %lld %lld %lld\n", fine.tv_sec * 1000000000LL + fine.tv_nsec,
               val.tv_sec * 1000000000LL + val.tv_usec * 1000LL,
               coarse.tv_sec * 1000000000LL + coarse.tv_nsec, time(NULL) * 1000000000LL);
        fflush(stdout);
    }
    return 0;
}
