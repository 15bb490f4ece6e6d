import type { GatewayError } from '../../errors.ts'
import type { AnswerFilter } from '../../inference/kinds.ts'
import { readPlace, renderSource, type TextPlace } from '../../inference/server-tool/sources.ts'
import type { ToolSource } from '../../inference/server-tool.ts'
import { isObject } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'

/** What is kept of one choice of an answer. */
interface ReadChoice {
  words: string
  /** Where the last of them stand. */
  place: TextPlace
  /** The URLs that its annotations name already. */
  cited: Set<unknown>
}

/** Adds the sources of a search to each choice of an answer that has words, before its end. */
export class SourceFilter implements AnswerFilter<TextPart> {
  readonly blocked: GatewayError | null = null
  readonly #sources: ToolSource[]
  readonly #choices = new Map<number, ReadChoice>()

  private constructor(sources: ToolSource[]) {
    this.#sources = sources
  }

  /** Creates the filter; null if there are no sources. */
  static create(sources: ToolSource[]): SourceFilter | null {
    return sources.length > 0 ? new SourceFilter(sources) : null
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    return parts.flatMap(part => this.#readPart(part))
  }

  async end(): Promise<TextPart[]> {
    return []
  }

  #readPart(part: TextPart): TextPart[] {
    if (part.type === 'text-delta') this.#noteWords(part)
    if (part.type === 'annotation') this.#noteCited(part)
    return part.type === 'finish' ? [...this.#renderSources(part.choice), part] : [part]
  }

  #noteWords(part: Extract<TextPart, { type: 'text-delta' }>): void {
    const read = this.#getChoice(part.choice)
    read.words += part.text
    read.place = readPlace(part)
  }

  #noteCited({ choice, annotation }: Extract<TextPart, { type: 'annotation' }>): void {
    const citation = isObject(annotation) ? annotation.url_citation : undefined
    if (isObject(citation)) this.#getChoice(choice).cited.add(citation.url)
  }

  #renderSources(choice: number): TextPart[] {
    const { words, place, cited } = this.#getChoice(choice)
    if (words === '') return []
    return this.#sources
      .filter(({ url }) => !cited.has(url))
      .map(source => ({ ...renderSource(source, words, place), choice }) as TextPart)
  }

  #getChoice(choice: number): ReadChoice {
    const known = this.#choices.get(choice) ?? { words: '', place: {}, cited: new Set() }
    this.#choices.set(choice, known)
    return known
  }
}
