const LONGEST = 200

/**
 * Names for the documents of one request. Bedrock takes letters, digits, single spaces, hyphens, parentheses and brackets, up to
 * 200 of them (API reference, DocumentBlock), and no name twice.
 */
export class DocumentNames {
  readonly #given = new Set<string>()

  /** A name for the next document, like that of its file. */
  name(filename = ''): string {
    const fitting = fitted(filename) || 'document'
    let name = fitting
    for (let i = 2; this.#given.has(name); i++) name = `${fitting.slice(0, LONGEST - 8)} (${i})`
    this.#given.add(name)
    return name
  }
}

// Bedrock tells the kind of a document apart, so its ending is left out.
const fitted = (filename: string): string =>
  filename
    .slice(0, 1024)
    .replace(/\.[a-zA-Z0-9]{1,8}$/, '')
    .replace(/[^a-zA-Z0-9\s()[\]-]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, LONGEST)
    .trim()
