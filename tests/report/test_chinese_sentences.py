"""The Chinese sentences: every fact has one, with the numbers of the English one, and no English words are left."""

import re
from collections import Counter

import pytest

from precreg.report.causes import diagnosis_rows
from precreg.report.chinese.causes import chinese_diagnosis_rows
from precreg.report.chinese.findings import chinese_finding
from precreg.report.chinese.run_findings import chinese_run_finding
from precreg.report.findings import describe_finding
from precreg.report.run_findings import describe_run_finding
from precreg.types.diagnosis import Diagnosis, OpaqueSubject
from precreg.types.verdict import Finding, Reason
from tests.report import test_run_sentences, test_sentences

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# Four English words in a row are a sentence, and no names, values or options.
_ENGLISH = re.compile(r"(?:\b[a-z]{2,}\b ){3,}\b[a-z]{2,}\b")


def numbers(text):
    return Counter(_NUMBER.findall(text.replace(",", "")))


def has_chinese(text):
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def check(english, chinese):
    assert has_chinese(chinese), chinese
    # Chinese writes a number where English has none or a word: "its seed", "1 element", "no seed".
    assert not numbers(english) - numbers(chinese), (english, chinese)
    assert set(numbers(chinese) - numbers(english)) <= {"0", "1"}, (english, chinese)
    assert english != chinese


@pytest.mark.parametrize(("fact", "fields", "text"), test_sentences.SENTENCES)
def test_a_finding_has_the_numbers_of_its_english_sentence(fact, fields, text):
    found = Finding(Reason.REGRESSED, fact=fact, **fields)
    check(describe_finding(found), chinese_finding(found))


@pytest.mark.parametrize(("fact", "text"), test_run_sentences.SENTENCES)
def test_a_finding_on_a_run_has_the_numbers_of_its_english_sentence(fact, text):
    found = test_run_sentences.finding(fact)
    check(describe_run_finding(found), chinese_run_finding(found))


OPAQUE = [
    OpaqueSubject("program", "c0ffee00deadbeef"),
    OpaqueSubject("recorded"),
    OpaqueSubject("figures", arguments=("training", "train:make", "--advise")),
]


@pytest.mark.parametrize("opaque", OPAQUE)
def test_a_program_has_the_command_of_its_english_diagnosis(opaque):
    found = Diagnosis(case="unit/sums/length=3", status="unknown", opaque=opaque)
    english, chinese = diagnosis_rows(found), list(chinese_diagnosis_rows(found, {}))
    assert len(english) == len(chinese)
    for (_, text), (_, translated) in zip(english, chinese, strict=True):
        check(text, translated)
        assert text.partition(": precreg ")[2] == translated.partition("：precreg ")[2]
    assert ("precreg bisect" in chinese[0][1]) == (opaque.form == "program")
    assert ("precreg training train:make --advise" in chinese[0][1]) == (opaque.form == "figures")


def test_the_sentences_hold_no_english():
    found = [
        chinese_finding(Finding(Reason.REGRESSED, fact=fact, **fields)) for fact, fields, _ in test_sentences.SENTENCES
    ]
    found += [chinese_run_finding(test_run_sentences.finding(fact)) for fact, _ in test_run_sentences.SENTENCES]
    assert [text for text in found if _ENGLISH.search(text)] == []
