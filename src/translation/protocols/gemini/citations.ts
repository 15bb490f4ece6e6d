import {
  isObject,
  type Json,
  parseCount,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { TextPart } from '../../../language/part.ts'
import { isWebAddress, toUrlCitation } from '../reader.ts'

type Annotation = Extract<TextPart, { type: 'annotation' }>

/** No answer has more sources than this. */
const MAX_SOURCES = 512
/** Beyond this text length, or after this many searches, citations get no range. */
const LONGEST_TEXT = 256 * 1024
const MAX_LOOKUPS = 2048

interface Source {
  url: string
  title?: string
}

/**
 * Collects the sources of one alternative as `url_citation` annotations. Each is emitted once,
 * however often Google repeats it.
 */
export class CitationReader {
  readonly #choice: number
  readonly #emitted = new Set<string>()
  #text = ''
  #lookups = 0

  constructor(choice: number) {
    this.#choice = choice
  }

  /** Appends a piece of the text that the citations refer to. */
  appendText(piece: string): void {
    if (this.#text.length <= LONGEST_TEXT) this.#text += piece
  }

  /** Returns the annotations of a candidate that have not been emitted yet. */
  readNew(candidate: Json): Annotation[] {
    return [
      ...this.#readGrounding(readObject(candidate, 'groundingMetadata')),
      ...this.#readOthers(candidate),
    ]
  }

  // A source that supports a passage is cited with its range, any other without one.
  #readGrounding({ groundingChunks, groundingSupports }: Json): Annotation[] {
    if (!Array.isArray(groundingChunks)) return []
    const sources = groundingChunks.map(readSource)
    const annotations: Annotation[] = []
    for (const support of readObjects(groundingSupports))
      annotations.push(...this.#readSupport(support, sources))
    for (const source of sources) if (source) annotations.push(...this.#emit(source))
    return annotations
  }

  #readSupport(
    { segment, groundingChunkIndices }: Json,
    sources: (Source | undefined)[],
  ): Annotation[] {
    const range = this.#findRange(isObject(segment) ? readString(segment.text) : null)
    if (!range || !Array.isArray(groundingChunkIndices)) return []
    return groundingChunkIndices.flatMap(index => {
      const source = sources[parseCount(index) ?? -1]
      return source ? this.#emit(source, range) : []
    })
  }

  // Google's offsets are bytes within a part. Searching for the text finds its range within the
  // answer.
  #findRange(words: string | null): { start_index: number; end_index: number } | undefined {
    this.#lookups += 1
    if (!words || this.#text.length > LONGEST_TEXT || this.#lookups > MAX_LOOKUPS) return undefined
    const start_index = this.#text.indexOf(words)
    return start_index === -1 ? undefined : { start_index, end_index: start_index + words.length }
  }

  /** Returns the sources that the answer quotes, and the pages that it was asked to read. */
  #readOthers(candidate: Json): Annotation[] {
    const { citationSources, citations } = readObject(candidate, 'citationMetadata')
    const repeated = [...readObjects(citationSources), ...readObjects(citations)].map(one =>
      toSource(one.uri, one.title),
    )
    const read = readObjects(readObject(candidate, 'urlContextMetadata').urlMetadata).map(one =>
      toSource(one.retrievedUrl, null),
    )
    return [...repeated, ...read].flatMap(source => (source ? this.#emit(source) : []))
  }

  #emit(source: Source, range?: { start_index: number; end_index: number }): Annotation[] {
    const key = range ? `${range.start_index} ${range.end_index} ${source.url}` : source.url
    if (this.#emitted.has(key) || this.#emitted.size >= MAX_SOURCES) return []
    this.#emitted.add(key).add(source.url)
    return [
      {
        type: 'annotation',
        choice: this.#choice,
        annotation: toUrlCitation(source.url, { ...source, ...range }),
      },
    ]
  }
}

function readSource(chunk: unknown): Source | undefined {
  if (!isObject(chunk)) return undefined
  const { web, image, retrievedContext, maps } = chunk
  const from = [web, retrievedContext, maps].find(isObject)
  return isObject(image) && !from
    ? toSource(image.sourceUri, image.title)
    : toSource(from?.uri, from?.title)
}

const toSource = (uri: unknown, title: unknown): Source | undefined =>
  typeof uri === 'string' && isWebAddress(uri)
    ? { url: uri, ...(typeof title === 'string' ? { title } : {}) }
    : undefined
