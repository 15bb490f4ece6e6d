/** As many as a body of the API may have: they are parsed without a pause. */
const MOST_VALUES = 500_000

/** What reads them may call itself for each level. */
const DEEPEST = 1_000

const [QUOTE, BACKSLASH, LINE_END] = [0x22, 0x5c, 0x0a]
const [COMMA, COLON] = [0x2c, 0x3a]
const [OPEN_LIST, OPEN_OBJECT, END_LIST, END_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d]

/** How much an MCP server may send in one use: bytes, and values in its JSON and their nesting. */
export class AnswerBudget {
  #bytes: number
  #values = 0
  #depth = 0
  /** Whether the bytes so far end within a text, and behind a backslash there. */
  #isText = false
  #isEscaped = false

  /** `mebibytes` is the most that it may send. */
  constructor(mebibytes: number) {
    this.#bytes = mebibytes * 1024 * 1024
  }

  /** Counts what comes next. Returns false once it is more than may come. */
  take(bytes: Uint8Array): boolean {
    this.#bytes -= bytes.length
    if (this.#bytes < 0) return false
    let [values, depth] = [this.#values, this.#depth]
    let [isText, isEscaped] = [this.#isText, this.#isEscaped]
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i]
      // No text of JSON goes over the end of a line.
      if (byte === LINE_END) isText = isEscaped = false
      else if (isEscaped) isEscaped = false
      else if (byte === QUOTE) isText = !isText
      else if (isText) isEscaped = byte === BACKSLASH
      else if (byte === COMMA || byte === COLON) values += 1
      else if (byte === END_LIST || byte === END_OBJECT) depth = Math.max(0, depth - 1)
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        values += 1
        depth += 1
        if (depth > DEEPEST) return false
      }
    }
    this.#values = values
    this.#depth = depth
    this.#isText = isText
    this.#isEscaped = isEscaped
    return values <= MOST_VALUES
  }
}
