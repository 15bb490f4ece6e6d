import { findMediaType } from './type/media.ts'
import { detectOoxml, isZip, type ReadAt } from './type/ooxml.ts'
import { TextJudge } from './type/text.ts'

/** How many of the first bytes are kept to look at. */
const HEAD = 64 * 1024

/**
 * Detects the type of a file from its contents alone, while they arrive: neither its name nor what
 * a client declares counts (specification E10). Holds 64 KiB, whatever the size.
 */
export class TypeDetector {
  readonly #head = Buffer.alloc(HEAD)
  #filled = 0
  readonly #text = new TextJudge()

  /** Takes the next bytes. */
  push(bytes: Uint8Array): void {
    if (this.#filled < HEAD) {
      const part = bytes.subarray(0, HEAD - this.#filled)
      this.#head.set(part, this.#filled)
      this.#filled += part.length
    }
    this.#text.push(bytes)
  }

  /**
   * Returns the media type of the whole file; undefined for any that is not accepted. `readAt`
   * reads the file, of which a few ranges are needed if it is a ZIP archive.
   */
  async finish(size: number, readAt: ReadAt): Promise<string | undefined> {
    const head = this.#head.subarray(0, this.#filled)
    if (isZip(head)) return detectOoxml(size, readAt)
    const media = await findMediaType(skipBlankLines(head))
    return media ?? this.#text.finish(head, size) ?? findLatePdf(head)
  }
}

const SPACES = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x20])
const PDF_START = Buffer.from('%PDF-')

// Some programs write a blank line before a PDF, and every reader of it accepts that.
function skipBlankLines(head: Buffer): Buffer {
  if (!SPACES.has(head[0] ?? 0)) return head
  const start = head.findIndex(byte => !SPACES.has(byte))
  const rest = start === -1 ? head : head.subarray(start)
  return rest.subarray(0, PDF_START.length).equals(PDF_START) ? rest : head
}

/** Readers of PDF look for its beginning among so many bytes. */
const PDF_SEARCHED = 1024

// A line or two of a printer or a mail before it, but no markup, program or archive: those have
// other readers.
function findLatePdf(head: Buffer): string | undefined {
  const start = /(?:^|[\r\n])%PDF-\d/.exec(head.toString('latin1', 0, PDF_SEARCHED))
  const before = start ? head.toString('latin1', 0, start.index) : '<'
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what no line of a text has.
  return /^(?!#!|MZ|PK)[^<>\x00-\x08\x0e-\x1a]*$/.test(before) ? 'application/pdf' : undefined
}
