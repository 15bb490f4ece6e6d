import type { GatewayError } from '../../../errors.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Turn } from '../../../language/message.ts'
import type { Params } from '../../../language/params.ts'
import type { TextPart } from '../../../language/part.ts'
import type { Reword } from '../../../language/passage.ts'
import type { Tool } from '../../../language/tool.ts'
import type { Match } from '../../../policy/filters/rule.ts'
import type { Screen } from '../../../policy/filters/screen.ts'
import { answerBlocked, type Filtering } from '../../filters/filtering.ts'
import type { AnswerFilter, ContentFiltering } from '../../kinds.ts'
import {
  type Rewriter,
  rewriteBlocks,
  rewriteEach,
  rewriteExtra,
  rewriteText,
  rewriteValue,
} from '../rewrite.ts'
import { ChoiceFilter } from './choice-filter.ts'

export const filtering: ContentFiltering<'text'> = {
  rewriteTexts,
  filterAnswer: (call, filtering, screen) => new TextFilter(call, filtering, screen),
}

/**
 * Rewrites every text that may have been typed: messages and names, predictions, response formats,
 * descriptions of tools. Does not change the call that it gets.
 */
async function rewriteTexts(call: TextCall, reword: Reword): Promise<TextCall> {
  const turns = await rewriteEach(call.turns, turn => rewriteTurn(turn, reword))
  const rewriteTool = (tool: Tool) => rewriteValue(tool, { role: 'system', reword })
  const tools = await rewriteEach(call.tools, rewriteTool)
  const extra = await rewriteValue(call.extra, { role: 'user', reword })
  return { ...call, turns, tools, extra, params: await rewriteParams(call.params, reword) }
}

async function rewriteTurn(turn: Turn, reword: Reword): Promise<Turn> {
  const rewriter: Rewriter = { role: turn.role, reword }
  const rewritten = { ...turn, blocks: await rewriteBlocks(turn.blocks, rewriter) }
  if (turn.name !== undefined) rewritten.name = await rewriteText(turn.name, rewriter)
  return rewriteExtra(rewritten, rewriter)
}

/** The role whose words a parameter holds. */
const SPOKEN = { prediction: 'assistant', response_format: 'system' } as const

async function rewriteParams(params: Params, reword: Reword): Promise<Params> {
  const rewritten: Record<string, unknown> = { ...params }
  for (const [name, role] of Object.entries(SPOKEN))
    if (name in params) rewritten[name] = await rewriteValue(rewritten[name], { role, reword })
  return rewritten as Params
}

/**
 * Filters an answer of text as it streams: words, refusals, reasoning and arguments of tools, each
 * choice by itself. An answer that is not streamed is held back until its end, so that a blocked
 * one gives nothing at all.
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
    const passed = this.#isStreamed ? out : this.#kept
    for (const part of parts) {
      if (!('choice' in part)) out.push(part)
      else if (!this.blocked) passed.push(...(await this.#choice(part.choice).read(part)))
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
