import type { GatewayError } from '../../../errors.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextPart } from '../../../language/part.ts'
import type { Match } from '../../../policy/filters/rule.ts'
import type { Screen } from '../../../policy/filters/screen.ts'
import { answerBlocked, type Filtering } from '../../filters/filtering.ts'
import type { AnswerFilter } from '../../kinds.ts'
import { ChoiceFilter } from './choice-filter.ts'

/**
 * Looks at an answer of text while it passes: what is said, refused, thought and put into calls of tools, each choice by itself. Of an
 * answer that is given whole nothing goes out before its end, so that one that is blocked says nothing at all.
 */
export class TextFilter implements AnswerFilter<TextPart> {
  readonly #isStreamed: boolean
  readonly #filtering: Filtering
  readonly #screen: Screen
  readonly #choices = new Map<number, ChoiceFilter>()
  readonly #kept: TextPart[] = []
  blocked: GatewayError | null = null

  constructor({ stream }: TextCall, filtering: Filtering, screen: Screen) {
    this.#isStreamed = stream
    this.#filtering = filtering
    this.#screen = screen
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    const out: TextPart[] = []
    for (const part of parts) {
      if (!('choice' in part)) out.push(part)
      else if (!this.blocked) (this.#isStreamed ? out : this.#kept).push(...(await this.#choice(part.choice).read(part)))
    }
    return out
  }

  async end(): Promise<TextPart[]> {
    const out = this.#kept
    for (const choice of this.#choices.values()) out.push(...(await choice.end()))
    return this.blocked && !this.#isStreamed ? [] : out
  }

  #choice(index: number): ChoiceFilter {
    const known = this.#choices.get(index)
    if (known) return known
    const made = new ChoiceFilter(this.#screen, match => this.#matched(match))
    this.#choices.set(index, made)
    return made
  }

  #matched({ rule }: Match): void {
    this.#filtering.note(rule, 'output')
    if (rule.action === 'block') this.blocked ??= answerBlocked(rule)
  }
}
