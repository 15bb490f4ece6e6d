import { count, isObject, type Json, member, objects, text } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'
import { isWebAddress, urlCitation } from '../reader.ts'

type Annotation = Extract<TextPart, { type: 'annotation' }>

/** No answer has more sources than this. */
const MOST_SOURCES = 512
/** Beyond this text length, or after this many searches, citations get no range. */
const LONGEST_TEXT = 256 * 1024
const MOST_LOOKS = 2048

interface Source {
  url: string
  title?: string
}

/**
 * Collects the sources of one alternative as `url_citation` annotations. Each is emitted once,
 * however often Google repeats it.
 */
export class Citations {
  readonly #choice: number
  readonly #told = new Set<string>()
  #text = ''
  #looks = 0

  constructor(choice: number) {
    this.#choice = choice
  }

  /** Appends a piece of the text that the citations refer to. */
  said(piece: string): void {
    if (this.#text.length <= LONGEST_TEXT) this.#text += piece
  }

  /** Returns the annotations of a candidate that have not been emitted yet. */
  of(candidate: Json): Annotation[] {
    return [...this.#grounding(member(candidate, 'groundingMetadata')), ...this.#others(candidate)]
  }

  // A source that supports a passage is cited with its range, any other without one.
  #grounding({ groundingChunks, groundingSupports }: Json): Annotation[] {
    if (!Array.isArray(groundingChunks)) return []
    const sources = groundingChunks.map(sourceOf)
    const annotations: Annotation[] = []
    for (const support of objects(groundingSupports))
      annotations.push(...this.#supported(support, sources))
    for (const source of sources) if (source) annotations.push(...this.#cite(source))
    return annotations
  }

  #supported(
    { segment, groundingChunkIndices }: Json,
    sources: (Source | undefined)[],
  ): Annotation[] {
    const place = this.#placeOf(isObject(segment) ? text(segment.text) : null)
    if (!place || !Array.isArray(groundingChunkIndices)) return []
    return groundingChunkIndices.flatMap(index => {
      const source = sources[count(index) ?? -1]
      return source ? this.#cite(source, place) : []
    })
  }

  // Google's offsets are bytes within a part. Searching for the text finds its range within the
  // answer.
  #placeOf(words: string | null): { start_index: number; end_index: number } | undefined {
    this.#looks += 1
    if (!words || this.#text.length > LONGEST_TEXT || this.#looks > MOST_LOOKS) return undefined
    const start_index = this.#text.indexOf(words)
    return start_index === -1 ? undefined : { start_index, end_index: start_index + words.length }
  }

  /** Returns the sources that the answer quotes, and the pages that it was asked to read. */
  #others(candidate: Json): Annotation[] {
    const { citationSources, citations } = member(candidate, 'citationMetadata')
    const repeated = [...objects(citationSources), ...objects(citations)].map(one =>
      sourceFrom(one.uri, one.title),
    )
    const read = objects(member(candidate, 'urlContextMetadata').urlMetadata).map(one =>
      sourceFrom(one.retrievedUrl, null),
    )
    return [...repeated, ...read].flatMap(source => (source ? this.#cite(source) : []))
  }

  #cite(source: Source, place?: { start_index: number; end_index: number }): Annotation[] {
    const key = place ? `${place.start_index} ${place.end_index} ${source.url}` : source.url
    if (this.#told.has(key) || this.#told.size >= MOST_SOURCES) return []
    this.#told.add(key).add(source.url)
    return [
      {
        type: 'annotation',
        choice: this.#choice,
        annotation: urlCitation(source.url, { ...source, ...place }),
      },
    ]
  }
}

function sourceOf(chunk: unknown): Source | undefined {
  if (!isObject(chunk)) return undefined
  const { web, image, retrievedContext, maps } = chunk
  const from = [web, retrievedContext, maps].find(isObject)
  return isObject(image) && !from
    ? sourceFrom(image.sourceUri, image.title)
    : sourceFrom(from?.uri, from?.title)
}

const sourceFrom = (uri: unknown, title: unknown): Source | undefined =>
  typeof uri === 'string' && isWebAddress(uri)
    ? { url: uri, ...(typeof title === 'string' ? { title } : {}) }
    : undefined
