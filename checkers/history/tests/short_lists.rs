//! Short lists and strings that come again are not parsed again: what they mean must not depend on
//! it.

use deposed_history::{ReadError, Value, read_str};

/// The values of a history of invocations with these values, a line each, in EDN.
fn values(texts: &[&str]) -> Result<Vec<Value>, ReadError> {
    let event = |(process, value): (usize, &&str)| {
        format!("{{:type :invoke, :process {process}, :f :txn, :value {value}}}\n")
    };
    let text: String = texts.iter().enumerate().map(event).collect();
    Ok(read_str(&text)?.history.ops().map(|op| op.value().to_value()).collect())
}

/// Every list is read as it is alone, whatever came before it that looks almost the same.
#[test]
fn lists_that_look_alike() -> Result<(), ReadError> {
    let texts = [
        "[[:r 1 nil] [:r 2 nil] [:r 1 nil]]",
        "[[:r 1 nil] [:r 1 nil]]",
        r#"[["r" 1 nil] [:r 1 nil]]"#,
        r#"["a]" 1] "#,
        r#"["a]" 2] "#,
        r#"["a]" 1] "#,
        "[:r #_ nil 1]",
        "[:r #_ [nil] 1]",
        "[:r #_ [nil] 2]",
        "[:r 1] ; ]\n",
        "[:r 1 ; ]\n 2]",
        "[:r 1 ; ]\n 3]",
        "[:r [1 2] 3]",
        "[:r [1 2] 4]",
        "[:r [1 2]]",
        r#"[:r "r" "r" :r]"#,
        "[:append 123456 1234567890123]",
        "[:append 123456 1234567890124]",
        r#"[["a(b" 1 2] [:a (b) 1 2] [:a(b) 1 2]]"#,
        "[[:r 1 nil] [:r 1 nilly] [:r 1 nil 2]]",
        "[[:r -1 -2] [:r 1 2N] [:r 1 2.5] [:r 1, 2]]",
        "[[:r 1 []] [:r 1 [ ]] [:r 1 [1 2]] [:r 1 [1 2 3]] [:r 1 [1 2 nil]] [:r 1 [1 nil]]]",
        "[[:r 1 [1 2]] [:r 1 [1 2 3] 4] [:r 1 [1 2 [3]]] [:r 1 [1 2]] [:r 1 [1]]]",
        "#_ [[:r 1 [1 2]] [:new-one 1 nil]] [:r 1 [1 2 3]]",
    ];
    let together = values(&[texts, texts].concat())?;
    for (at, text) in texts.iter().enumerate() {
        let alone = values(&[text])?;
        assert_eq!(together[at], alone[0], "{text}");
        assert_eq!(together[at + texts.len()], alone[0], "{text}, again");
    }
    Ok(())
}

/// Line ends inside of lists that repeat are counted all the same.
#[test]
fn lines_inside_of_lists() {
    let list = "[[:r\n1 nil]\n[:r\n1 nil]]";
    let error = values(&[list, list, list, "[:r 09]"]).expect_err("09 is no number");
    let ReadError::Flawed(flaws) = error else { panic!("{error}") };
    let places: Vec<_> = flaws.listed().iter().map(|flaw| (flaw.line, flaw.column)).collect();
    assert_eq!(places, [(13, Some(49))]);
}

/// A backslash is part of a keyword, but not of a string.
#[test]
fn a_keyword_is_no_string() {
    let read = |string| values(&[r"[:a\nb]", string, "[nil nil nil nil nil]"]);
    let expected = Value::List(vec![Value::str("a\nb")]);
    assert_eq!(read(r#"["a\nb"]"#).map(|values| values[1].clone()).ok(), Some(expected));
    assert!(read(r#"["a\xb"]"#).is_err());
}
