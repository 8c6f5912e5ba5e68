// Plain BPE and Scaffold-BPE as Python encodes with them, from what the page embeds (_box in report/html.py).
//
// A token is a number, in the order of creation: special tokens, the alphabet of bytes, then what each merge makes.
// Plain BPE knows the first merges alone. Scaffold-BPE knows all, and takes scaffold tokens apart again at the end.
class Encoder {
  constructor({ special_tokens, alphabet, merges, width, plain_merges, scaffolds, levels }) {
    this.specials = special_tokens;
    this.longestFirst = [...special_tokens.keys()].sort((a, b) => special_tokens[b].length - special_tokens[a].length);
    this.alphabet = alphabet; // the byte of each token
    this.firstByte = special_tokens.length;
    this.firstMerged = this.firstByte + alphabet.length;
    this.tokenOfByte = [];
    alphabet.forEach((byte, i) => (this.tokenOfByte[byte] = this.firstByte + i));
    this.parts = unpack(merges, width); // left and right of each merge, by rank
    this.nMerges = this.parts.length / 2;
    this.nPlain = plain_merges;
    this.nTokens = this.firstMerged + this.nMerges;
    this.ranks = new Map();
    for (let rank = 0; rank < this.nMerges; rank++) this.ranks.set(this.pair(...this.partsOf(rank)), rank);
    this.isScaffold = new Uint8Array(this.nTokens);
    for (const token of unpack(scaffolds, width)) this.isScaffold[token] = 1;
    this.ids = new Int32Array(this.nTokens); // of Scaffold-BPE; scaffold tokens have none
    for (let token = 0, id = 0; token < this.nTokens; token++) this.ids[token] = this.isScaffold[token] ? -1 : id++;
    this.levels = levels;
  }

  // A text's pre-tokens: {text, plain, scaffold, of, differs}. `plain` and `scaffold` are tokens, `of` the scaffold token
  // that each of the latter is a part of, or undefined. Special tokens stand for themselves.
  encode(text) {
    const found = [];
    for (const { special, part } of this.cutAtSpecials(wellFormed(text))) {
      if (special !== undefined) {
        found.push({ text: part, plain: [special], scaffold: [special], of: [undefined], differs: false });
      } else {
        for (const pretoken of this.pretokens(part)) found.push(this.encodePretoken(pretoken));
      }
    }
    return found;
  }

  // The ids of a text, [plain BPE's, Scaffold-BPE's].
  idsOf(text) {
    const pretokens = this.encode(text);
    return [pretokens.flatMap((p) => p.plain), pretokens.flatMap((p) => p.scaffold.map((token) => this.ids[token]))];
  }

  // ---- pre-tokens

  // The longest special token that begins at the leftmost place comes first.
  *cutAtSpecials(text) {
    let begin = 0;
    for (let at = 0; at < text.length; ) {
      const special = this.longestFirst.find((i) => text.startsWith(this.specials[i], at));
      if (special === undefined) {
        at++;
        continue;
      }
      if (begin < at) yield { part: text.slice(begin, at) };
      begin = at += this.specials[special].length;
      yield { special, part: this.specials[special] };
    }
    if (begin < text.length) yield { part: text.slice(begin) };
  }

  pretokens(text) {
    const characters = [...text];
    const found = [];
    const split = (n, begin, end) => {
      if (n === this.levels.length) found.push(characters.slice(begin, end).join(""));
      else for (const [from, to] of cut(this.levels[n], characters, begin, end)) split(n + 1, from, to);
    };
    split(0, 0, characters.length);
    return found;
  }

  // ---- merging and demolishing

  encodePretoken(text) {
    const symbols = [...new TextEncoder().encode(text)].map((byte) => this.tokenOfByte[byte]);
    const plain = this.merged(symbols, this.nPlain);
    const scaffold = [], of = [];
    for (const token of this.merged(symbols, this.nMerges)) {
      for (const normal of this.demolished(token)) {
        scaffold.push(normal);
        of.push(this.isScaffold[token] ? token : undefined);
      }
    }
    const differs = plain.length !== scaffold.length || plain.some((token, i) => token !== scaffold[i]);
    return { text, plain, scaffold, of, differs };
  }

  // Applies the merge of the lowest rank, from the left, until none applies. What a merge makes is a part of later merges
  // only, so all places of one merge can be merged at once.
  merged(tokens, nMerges) {
    for (;;) {
      let best = nMerges;
      for (let i = 1; i < tokens.length; i++) {
        const rank = this.ranks.get(this.pair(tokens[i - 1], tokens[i]));
        if (rank < best) best = rank; // undefined isn't less
      }
      if (best === nMerges) return tokens;
      const [left, right] = this.partsOf(best);
      const after = [];
      for (let i = 0; i < tokens.length; i++) {
        const matches = tokens[i] === left && tokens[i + 1] === right;
        after.push(matches ? this.firstMerged + best : tokens[i]);
        if (matches) i++;
      }
      tokens = after;
    }
  }

  demolished(token) {
    return this.isScaffold[token] ? this.partsOf(token - this.firstMerged).flatMap((part) => this.demolished(part)) : [token];
  }

  partsOf(rank) {
    return [this.parts[2 * rank], this.parts[2 * rank + 1]];
  }

  pair(left, right) {
    return left * this.nTokens + right;
  }

  // A token as token_text() in report/words.py shows it.
  show(token) {
    return token < this.firstByte ? this.specials[token] : shown(Uint8Array.from(this.bytesOf(token)));
  }

  bytesOf(token) {
    if (token < this.firstMerged) return [this.alphabet[token - this.firstByte]];
    return this.partsOf(token - this.firstMerged).flatMap((part) => this.bytesOf(part));
  }
}

// A level of splitting/levels.py: its automaton finds matches; they and the gaps between them are pre-tokens, or are
// joined or left out. Yields [begin, end].
function* cut(level, characters, begin, end) {
  const classes = characters.slice(begin, end).map((character) => classOf(level, character.codePointAt(0)));
  let from = 0, kind = 0; // of the piece at hand: 0 for a gap, 1 for a match
  for (const [at, next] of pieces(level, classes)) {
    if (at > from && (level.cuts >> (2 * kind + next)) & 1) {
      if (!((level.drops >> kind) & 1)) yield [begin + from, begin + at];
      from = at;
    }
    kind = next;
  }
  if (from < classes.length && !((level.drops >> kind) & 1)) yield [begin + from, end];
}

// Where gaps and matches begin: [place, kind].
function* pieces(level, classes) {
  let isInGap = false;
  for (let at = 0; at < classes.length; ) {
    const end = matchFrom(level, classes, at);
    if (end === undefined) {
      if (!isInGap) yield [at, 0];
      at++;
    } else {
      yield [at, 1];
      at = end;
    }
    isInGap = end === undefined;
  }
}

// The end of the match that begins at a place, if there is one.
function matchFrom({ n_classes, transitions, accepts }, classes, at) {
  let found;
  for (let state = 0; ; at++) {
    const kind = at < classes.length ? classes[at] : n_classes; // the last column is for the end of the text
    if (accepts[state * (n_classes + 1) + kind]) found = at;
    if (at === classes.length) return found;
    state = transitions[state * n_classes + kind];
    if (state < 0) return found;
  }
}

// The class of a code point: that of the last run that begins at or before it.
function classOf({ starts, classes }, code) {
  let low = 0, high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= code) low = middle;
    else high = middle;
  }
  return classes[low];
}

// The numbers in base64, each of `width` bytes, the lowest first.
function unpack(base64, width) {
  const bytes = atob(base64);
  const numbers = new Int32Array(bytes.length / width);
  for (let i = 0; i < bytes.length; i++) numbers[Math.floor(i / width)] |= bytes.charCodeAt(i) << (8 * (i % width));
  return numbers;
}

// Half a surrogate pair is no text: U+FFFD stands for it.
function wellFormed(text) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(text));
}

// Bytes as text; signs stand for white space, and hexadecimal numbers for what can't be shown.
function shown(bytes) {
  const hex = (number, digits) => number.toString(16).toUpperCase().padStart(digits, "0");
  let text;
  try {
    text = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true }).decode(bytes);
  } catch { // part of a character
    return [...bytes].map((byte) => (byte < 0x80 ? shown(Uint8Array.of(byte)) : `⟨${hex(byte, 2)}⟩`)).join("");
  }
  const signs = { " ": "␣", "\n": "⏎", "\t": "⇥" };
  return text.replace(/[\p{C}\p{Z}]/gu, (c) => signs[c] ?? `⟨U+${hex(c.codePointAt(0), 4)}⟩`);
}
