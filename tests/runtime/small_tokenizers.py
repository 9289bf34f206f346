"""Small tokenizers of every kind that models have, made by the libraries that models use."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Tokenizer as Core, decoders, models, pre_tokenizers
from transformers import LlamaTokenizer, PreTrainedTokenizerFast

from runtime.model.chat_template import chat_template_of
from runtime.tokenizer import Tokenizer
from runtime.tokens import byte_level_alphabet

WORDS = [
    "▁the",
    "▁a",
    "▁12",
    "ab",
    "aa",
    "▁é",
    "日本",
    '":',
    '{"',
    '"}',
    ",▁",
    "▁▁",
    "▁▁▁▁",
    "ba\n",
]
LETTERS = sorted({char for word in WORDS for char in word} | set('abcxyz019-.▁"{}:,[]'))
PIECES = [
    "##a",
    "##b",
    "##ab",
    "##1",
    '##"',
    "##,",
    "##日",
    "a",
    "b",
    "ab",
    "aa",
    "1",
    '"',
    "{",
    "日",
    "the",
]


def engine_tokenizer(backend: Any, *, eos_token: str = "</s>") -> Tokenizer:
    """The runtime's tokenizer over a library's."""
    return Tokenizer(
        backend,
        vocab_size=len(backend),
        eos_token_ids=[backend.convert_tokens_to_ids(eos_token)],
        chat_template=chat_template_of(backend),
    )


def sentencepiece(**options: Any) -> LlamaTokenizer:
    """BPE over characters with a mark for the space, and bytes where there is no character."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    merges: dict[str, tuple[str, str]] = {}
    for word in WORDS:
        for end in range(2, len(word) + 1):
            merges.setdefault(word[:end], (word[: end - 1], word[end - 1]))
    tokens += [*LETTERS, *(text for text in merges if text not in LETTERS)]
    vocabulary = {text: token_id for token_id, text in enumerate(tokens)}
    return LlamaTokenizer(vocab=vocabulary, merges=list(merges.values()), **options)


def byte_level(*, normalizer: Any = None, added: list[AddedToken] | None = None) -> Any:
    """Byte-level BPE: every byte, and what the words are merged of."""
    stand_in = {byte: char for char, byte in byte_level_alphabet().items()}
    tokens = [stand_in[byte] for byte in range(256)]
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        spelled = [stand_in[byte] for byte in word.replace("▁", " ").encode()]
        for end in range(2, len(spelled) + 1):
            if (text := "".join(spelled[:end])) not in tokens:
                tokens.append(text)
                merges.append((text[:-1], text[-1]))
    core = Core(models.BPE(vocab={text: i for i, text in enumerate(tokens)}, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    if normalizer is not None:
        core.normalizer = normalizer
    core.add_special_tokens(["<s>", "</s>"])
    core.add_tokens(added or [])
    return wrapped(core)


def word_piece(*, normalizer: Any = None, cleanup: bool = False) -> Any:
    """Words, and parts of words that begin with ##."""
    vocabulary = {text: token_id for token_id, text in enumerate(["[UNK]", *PIECES])}
    core = Core(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.decoder = decoders.WordPiece(prefix="##", cleanup=cleanup)
    if normalizer is not None:
        core.normalizer = normalizer
    core.add_special_tokens(["</s>"])
    return wrapped(core)


def wrapped(core: Core) -> Any:
    wrap: Any = PreTrainedTokenizerFast  # its signature is not typed
    return wrap(tokenizer_object=core, eos_token="</s>")
