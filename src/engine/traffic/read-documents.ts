/** The kinds of documents that are read. */
export type DocumentType = 'pdf' | 'docx' | 'xlsx' | 'pptx'

/** What a document says. */
export interface DocumentText {
  type: DocumentType
  text: string
  /** Whether the text is longer and was cut. */
  isCut: boolean
  /** How many pages it has; only of a PDF. */
  pages?: number
}

/** How long a text is remembered after it was last used, in milliseconds. */
const REMEMBERED_MS = 60 * 60 * 1_000

/** What an entry takes beside its text, in bytes. */
const OVERHEAD = 500

/**
 * Remembers in memory what documents say, so that a conversation which sends one again has it read
 * once: for an hour after its last use, and within a bound of bytes. What was used longest ago goes
 * first. Nothing of it outlives the process.
 */
export class ReadDocuments {
  /** In the order of use: a map keeps that of insertion. */
  readonly #entries = new Map<string, { document: DocumentText; usedAt: number }>()
  #size = 0

  /** The bytes of all texts. */
  get size(): number {
    return this.#size
  }

  /** Finds the text of a document, at this time in steady milliseconds; null if there is none. */
  find(name: string, now: number): DocumentText | null {
    this.#forgetOld(now)
    const entry = this.#entries.get(name)
    if (!entry) return null
    this.#entries.delete(name)
    this.#entries.set(name, { ...entry, usedAt: now })
    return entry.document
  }

  /** Keeps a text within a bound of bytes: not at all if it alone is larger. */
  keep(name: string, document: DocumentText, { now, most }: { now: number; most: number }): void {
    this.#forgetOld(now)
    this.#delete(name)
    const size = measure(name, document)
    if (size <= most) {
      this.#entries.set(name, { document, usedAt: now })
      this.#size += size
    }
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= most) return
      this.#delete(oldest)
    }
  }

  #forgetOld(now: number): void {
    for (const [name, { usedAt }] of this.#entries) {
      if (now - usedAt < REMEMBERED_MS) return
      this.#delete(name)
    }
  }

  #delete(name: string): void {
    const entry = this.#entries.get(name)
    if (!entry) return
    this.#entries.delete(name)
    this.#size -= measure(name, entry.document)
  }
}

const measure = (name: string, { text }: DocumentText): number =>
  OVERHEAD + 2 * (name.length + text.length)
