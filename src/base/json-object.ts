/** How far the text of a JSON object has come. */
export type ObjectState = 'empty' | 'open' | 'whole' | 'broken'

/** No honest sender nests deeper than this: `parseExact` reads no more. */
const DEEPEST = 5_000

/** What the next character may be, outside of texts and plain values. */
type Next = 'object' | 'key or end' | 'key' | 'colon' | 'value' | 'value or end' | 'comma or end'

/**
 * Checks that a text is one JSON object (RFC 8259), as it streams and without keeping it. Each
 * character is read once.
 */
export class ObjectScanner {
  #state: ObjectState = 'empty'
  #next: Next = 'object'
  /** The brackets that are open. */
  #open: number[] = []
  #inText = false
  #isKey = false
  /** After a backslash, how many characters belong to it: one, or the four digits of `\u`. */
  #escape = 0
  #digits = 0
  /** The plain value that is read: a number or a word. */
  #plain = ''

  get state(): ObjectState {
    return this.#state
  }

  /** Whether nothing but white space has come. */
  get isEmpty(): boolean {
    return this.#state === 'empty'
  }

  /** Reads the next piece. Returns where the object ends in it, or -1 if it does not. */
  read(piece: string): number {
    for (let i = 0; i < piece.length; i++) {
      if (this.#state === 'whole' || this.#state === 'broken') return -1
      if (this.#inText && this.#escape === 0 && this.#digits === 0) i = this.#skipText(piece, i)
      else if (this.#plain === '' && this.#next !== 'comma or end') i = this.#skipPlain(piece, i)
      if (i === piece.length) return -1
      this.#readCharacter(piece.charCodeAt(i))
      if (this.state === 'whole') return i + 1
    }
    return -1
  }

  // Most characters of arguments are in texts, and most of those are plain.
  #skipText(piece: string, from: number): number {
    let at = from
    for (; at < piece.length; at++) {
      const code = piece.charCodeAt(at)
      if (code === QUOTE || code === BACKSLASH || code < SPACE) break
    }
    return at
  }

  // Numbers and words that the piece has whole are read at once: there may be a million.
  #skipPlain(piece: string, from: number): number {
    if (!this.#takesValue || this.#open.length === 0 || !PLAIN_BEGIN[piece.charCodeAt(from)])
      return from
    PLAIN_AT.lastIndex = from
    if (!PLAIN_AT.test(piece) || PLAIN_AT.lastIndex - from > LONGEST_PLAIN) return from
    this.#next = 'comma or end'
    return PLAIN_AT.lastIndex
  }

  #readCharacter(code: number): void {
    if (this.#inText) this.#readInText(code)
    else if (this.#plain !== '' && !isDelimiter(code)) this.#growPlain(code)
    else {
      if (this.#plain !== '') this.#endPlain()
      if (!isSpace(code) && this.#state !== 'broken') this.#readSign(code)
    }
  }

  #readInText(code: number): void {
    if (this.#digits > 0) {
      this.#digits -= 1
      if (!isHexDigit(code)) this.#break()
    } else if (this.#escape > 0) {
      this.#escape = 0
      if (code === LETTER_U) this.#digits = 4
      else if (!ESCAPED.includes(String.fromCharCode(code))) this.#break()
    } else if (code === BACKSLASH) this.#escape = 1
    else if (code === QUOTE) this.#endText()
    else if (code < SPACE) this.#break()
  }

  #endText(): void {
    this.#inText = false
    this.#next = this.#isKey ? 'colon' : 'comma or end'
  }

  #readSign(code: number): void {
    if (code === OPEN_BRACE || (code === OPEN_BRACKET && this.#open.length > 0)) this.#begin(code)
    else if (code === CLOSE_BRACE) this.#end(OPEN_BRACE, 'key or end')
    else if (code === CLOSE_BRACKET) this.#end(OPEN_BRACKET, 'value or end')
    else if (code === QUOTE) this.#beginText()
    else if (code === COMMA) this.#separate('comma or end', this.#inObject ? 'key' : 'value')
    else if (code === COLON) this.#separate('colon', 'value')
    else if (this.#takesValue && this.#open.length > 0) this.#growPlain(code)
    else this.#break()
  }

  get #inObject(): boolean {
    return this.#open.at(-1) === OPEN_BRACE
  }

  get #takesValue(): boolean {
    return this.#next === 'value' || this.#next === 'value or end' || this.#next === 'object'
  }

  #begin(bracket: number): void {
    if (!this.#takesValue || this.#open.length >= DEEPEST) this.#break()
    else {
      this.#state = 'open'
      this.#open.push(bracket)
      this.#next = bracket === OPEN_BRACE ? 'key or end' : 'value or end'
    }
  }

  #end(bracket: number, whenEmpty: Next): void {
    const fits = this.#next === 'comma or end' || this.#next === whenEmpty
    if (!fits || this.#open.at(-1) !== bracket) this.#break()
    else {
      this.#open.pop()
      this.#next = 'comma or end'
      if (this.#open.length === 0) this.#state = 'whole'
    }
  }

  #beginText(): void {
    this.#isKey = this.#next === 'key or end' || this.#next === 'key'
    if (this.#open.length === 0 || !(this.#isKey || this.#takesValue)) this.#break()
    else this.#inText = true
  }

  #separate(expected: Next, next: Next): void {
    if (this.#next === expected) this.#next = next
    else this.#break()
  }

  // A number has no bound in JSON, but no honest one is this long.
  #growPlain(code: number): void {
    this.#plain += String.fromCharCode(code)
    if (this.#plain.length > LONGEST_PLAIN) this.#break()
  }

  #endPlain(): void {
    if (!PLAIN.test(this.#plain)) this.#break()
    this.#plain = ''
    this.#next = 'comma or end'
  }

  #break(): void {
    this.#state = 'broken'
  }
}

const LONGEST_PLAIN = 1_024
const PLAIN = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/
const PLAIN_AT =
  /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?=[,\]}\x20\n\r\t])/y
/** Whether a plain value may begin with a character. */
const PLAIN_BEGIN = Array.from({ length: 128 }, (_, code) =>
  '-0123456789tfn'.includes(String.fromCharCode(code)),
)

const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const LETTER_U = 0x75
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
/** What may follow a backslash, but for the `u`. */
const ESCAPED = '"\\/bfnrt'

const isSpace = (code: number): boolean =>
  code === SPACE || code === 0x0a || code === 0x0d || code === 0x09

const isDelimiter = (code: number): boolean =>
  isSpace(code) || code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET

const isHexDigit = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66)
