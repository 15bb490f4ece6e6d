import { isUtf8 } from 'node:buffer'
import { isCsv } from './csv.ts'
import { JsonJudge } from './json.ts'
import { isMarkdown } from './markdown.ts'

/** Control characters that texts have: tab, line feed, form feed, carriage return and escape. */
const ALLOWED = [0x09, 0x0a, 0x0c, 0x0d, 0x1b]

const IS_BINARY = new Uint8Array(256)
for (let byte = 0; byte < 0x20; byte++) IS_BINARY[byte] = ALLOWED.includes(byte) ? 0 : 1

/** Judges whether a file is text in UTF-8, and which, while it arrives: all of it is looked at. */
export class TextJudge {
  /** The bytes of a character that the next bytes complete. */
  #rest: Uint8Array = new Uint8Array(0)
  #isText = true
  readonly #json = new JsonJudge()

  /** Takes the next bytes. */
  push(bytes: Uint8Array): void {
    if (!this.#isText) return
    this.#isText = this.#isWholeText(bytes) && !hasControl(bytes)
    if (this.#isText) this.#json.push(bytes)
  }

  /** Returns the media type; undefined if it is not text. `head` has the first bytes. */
  finish(head: Buffer, size: number): string | undefined {
    if (!this.#isText || this.#rest.length > 0) return undefined
    const json = this.#json.finish()
    if (json) return json === 'lines' ? 'application/x-ndjson' : 'application/json'
    const lines = splitLines(head.toString('utf8'), head.length < size)
    if (isMarkdown(lines)) return 'text/markdown'
    return isCsv(lines) ? 'text/csv' : 'text/plain'
  }

  // The end of a piece may be the middle of a character.
  #isWholeText(bytes: Uint8Array): boolean {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const end = findLastStart(all)
    this.#rest = Uint8Array.from(all.subarray(end))
    return isUtf8(all.subarray(0, end))
  }
}

/** Finds where the last character begins if it is not complete; else the end. */
function findLastStart(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}

function hasControl(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if (IS_BINARY[bytes[i] as number] === 1) return true
  return false
}

// The last line of a part may be cut.
function splitLines(text: string, isPart: boolean): string[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/)
  if (isPart && lines.length > 1) lines.pop()
  return lines
}
