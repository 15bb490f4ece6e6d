import { GatewayError } from '../../../errors.ts'
import { runInTurns } from '../../../kernel/turns.ts'
import type { Transcript, TranscriptionPart } from '../../../language/transcription.ts'
import type { FilterSet } from '../../../policy/filters/filter-set.ts'
import { answerBlocked, type Filtering, filterFailure } from '../../filters/filtering.ts'
import type { AnswerFilter } from '../../kinds.ts'

/**
 * Filters what was said: the text, its segments and its words, each as one text, so that a number
 * that is spread over several words is found.
 */
export class TranscriptFilter implements AnswerFilter<TranscriptionPart> {
  readonly #filtering: Filtering
  readonly #filterSet: FilterSet
  blocked: GatewayError | null = null

  constructor(filtering: Filtering, filterSet: FilterSet) {
    this.#filtering = filtering
    this.#filterSet = filterSet
  }

  async read(parts: TranscriptionPart[]): Promise<TranscriptionPart[]> {
    const out: TranscriptionPart[] = []
    for (const part of parts) {
      // What is heard goes out once all of it is read, and without the tokens that it is made of.
      if (part.type === 'transcript-delta') continue
      if (part.type !== 'transcript') out.push(part)
      else {
        const { logprobs: _, ...transcript } = part
        out.push({ ...transcript, ...(await this.#filter(part)) })
      }
    }
    return this.blocked ? out.filter(({ type }) => type !== 'transcript') : out
  }

  end = async (): Promise<TranscriptionPart[]> => []

  readFailure(thrown: unknown): GatewayError {
    return filterFailure(this.#filtering, GatewayError.from(thrown))
  }

  async #filter({ text, segments, words }: Transcript): Promise<Partial<Transcript>> {
    const [redacted = ''] = await this.#redact([text])
    const spoken = segments && (await this.#redact(segments.map(segment => segment.text)))
    const single = words && (await this.#redact(words.map(({ word }) => `${word} `)))
    return {
      text: redacted,
      ...(segments
        ? { segments: segments.map((one, i) => ({ ...one, text: spoken?.[i] ?? '' })) }
        : {}),
      ...(words
        ? { words: words.map((one, i) => ({ ...one, word: single?.[i]?.replace(/ $/, '') ?? '' })) }
        : {}),
    }
  }

  async #redact(pieces: string[]): Promise<string[]> {
    const { redactSegment } = await import('../../../policy/filters/text-segment.ts')
    const segment = { role: 'assistant' as const, pieces, isJson: false }
    const { pieces: redacted, matches } = await runInTurns(redactSegment(segment, this.#filterSet))
    // The same words come up to three times, and count once.
    const fresh = matches.filter(({ rule }) => !this.#filtering.hasFound(rule, 'output'))
    for (const { rule } of fresh) this.#filtering.noteMatch(rule, 'output')
    const blocking = matches.find(({ rule }) => rule.action === 'block')
    if (blocking) this.blocked ??= answerBlocked(blocking.rule)
    return redacted
  }
}
