/** Values that nest deeper are no JSON here: parsers differ in what they take. */
const DEEPEST = 1_024

/** What may come next. */
const State = {
  Value: 0,
  FirstValue: 1,
  FirstName: 2,
  Name: 3,
  Colon: 4,
  AfterValue: 5,
  Text: 6,
  Escape: 7,
  Hex: 8,
  Number: 9,
  Word: 10,
  Between: 11,
}

const WORDS: Record<number, Buffer> = {
  116: Buffer.from('true'),
  102: Buffer.from('false'),
  110: Buffer.from('null'),
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/
const LONGEST_NUMBER = 1_024

/**
 * Judges whether bytes are one JSON object or array, or several of them on a line each, while they
 * arrive (RFC 8259). Holds its depth and the number that it is reading, and nothing else.
 */
export class JsonJudge {
  #state: number = State.Between
  #isJson = true
  /** What is open: true for an object. */
  readonly #open: boolean[] = []
  #isName = false
  #word: Buffer = Buffer.alloc(0)
  #at = 0
  #number = ''
  #values = 0
  /** Whether a line has ended within a value, and since the last one. */
  #isBroken = false
  #isSeparated = true
  #position = 0

  /** Takes the next bytes. */
  push(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length && this.#isJson; i++) {
      const byte = bytes[i] as number
      if (this.#state === State.Text && byte !== 0x22 && byte !== 0x5c && byte >= 0x20) continue
      if (this.#position + i < 3 && isMark(byte, this.#position + i)) continue
      this.#isJson = this.#step(byte)
    }
    this.#position += bytes.length
  }

  /** Returns what it was: one value, values on lines, or undefined for no JSON. */
  finish(): 'value' | 'lines' | undefined {
    if (!this.#isJson || this.#state !== State.Between || this.#values === 0) return undefined
    if (this.#values === 1) return 'value'
    return this.#isBroken ? undefined : 'lines'
  }

  #step(byte: number): boolean {
    switch (this.#state) {
      case State.Text:
        return this.#stepText(byte)
      case State.Escape:
        return this.#stepEscape(byte)
      case State.Hex:
        this.#at += 1
        if (this.#at === 4) this.#state = State.Text
        return isHex(byte)
      case State.Word:
        return this.#stepWord(byte)
      case State.Number:
        return this.#stepNumber(byte)
      default:
        return isSpace(byte) ? this.#stepSpace(byte) : this.#stepToken(byte)
    }
  }

  #stepSpace(byte: number): boolean {
    if (byte !== 0x0a) return true
    if (this.#open.length > 0) this.#isBroken = true
    else this.#isSeparated = true
    return true
  }

  #stepToken(byte: number): boolean {
    switch (this.#state) {
      case State.Between:
        return this.#isSeparated && (byte === 0x7b || byte === 0x5b) && this.#openValue(byte)
      case State.FirstName:
        return byte === 0x7d ? this.#close(true) : this.#openName(byte)
      case State.Name:
        return this.#openName(byte)
      case State.Colon:
        this.#state = State.Value
        return byte === 0x3a
      case State.FirstValue:
        return byte === 0x5d ? this.#close(false) : this.#openValue(byte)
      case State.Value:
        return this.#openValue(byte)
      default:
        return this.#stepAfterValue(byte)
    }
  }

  #stepAfterValue(byte: number): boolean {
    const isObject = this.#open.at(-1) === true
    if (byte === 0x2c) {
      this.#state = isObject ? State.Name : State.Value
      return true
    }
    return byte === (isObject ? 0x7d : 0x5d) && this.#close(isObject)
  }

  #openName(byte: number): boolean {
    this.#isName = true
    this.#state = State.Text
    return byte === 0x22
  }

  #openValue(byte: number): boolean {
    if (byte === 0x7b || byte === 0x5b) {
      this.#open.push(byte === 0x7b)
      this.#state = byte === 0x7b ? State.FirstName : State.FirstValue
      return this.#open.length <= DEEPEST
    }
    if (byte === 0x22) {
      this.#isName = false
      this.#state = State.Text
      return true
    }
    const word = WORDS[byte]
    if (word) {
      this.#word = word
      this.#at = 1
      this.#state = State.Word
      return true
    }
    this.#number = String.fromCharCode(byte)
    this.#state = State.Number
    return byte === 0x2d || isDigit(byte)
  }

  #close(isObject: boolean): boolean {
    const isSame = this.#open.pop() === isObject
    this.#endValue()
    return isSame
  }

  #endValue(): void {
    if (this.#open.length > 0) {
      this.#state = State.AfterValue
      return
    }
    this.#values += 1
    this.#isSeparated = false
    this.#state = State.Between
  }

  #stepText(byte: number): boolean {
    if (byte === 0x5c) this.#state = State.Escape
    else if (byte === 0x22) {
      if (this.#isName) this.#state = State.Colon
      else this.#endValue()
    } else return byte >= 0x20
    return true
  }

  #stepEscape(byte: number): boolean {
    this.#at = 0
    this.#state = byte === 0x75 ? State.Hex : State.Text
    return byte === 0x75 || ESCAPES.includes(byte)
  }

  #stepWord(byte: number): boolean {
    const isSame = byte === this.#word[this.#at]
    this.#at += 1
    if (this.#at === this.#word.length) this.#endValue()
    return isSame
  }

  #stepNumber(byte: number): boolean {
    if (IN_NUMBER.includes(byte)) {
      this.#number += String.fromCharCode(byte)
      return this.#number.length <= LONGEST_NUMBER
    }
    if (!NUMBER.test(this.#number)) return false
    this.#endValue()
    return this.#step(byte)
  }
}

// A parser may ignore a byte order mark (RFC 8259, 8.1).
const isMark = (byte: number, position: number) => byte === [0xef, 0xbb, 0xbf][position]
const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
const isDigit = (byte: number) => byte >= 0x30 && byte <= 0x39
const isHex = (byte: number) => isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66)
const ESCAPES = [...Buffer.from('"\\/bfnrt')]
const IN_NUMBER = [...Buffer.from('0123456789+-.eE')]
