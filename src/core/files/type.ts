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
    const media = await findMediaType(head)
    return media ?? this.#text.finish(head, size)
  }
}
