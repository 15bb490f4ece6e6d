import { GatewayError } from '../../base/errors.ts'
import { isObject, type Json, readObjects } from '../../base/json.ts'
import { runAtOnce } from '../../base/turns.ts'
import type { TextCall } from '../../language/call.ts'
import { TEXT_DIALECTS } from '../../language/dialect.ts'
import type { Message } from '../../language/message.ts'
import type { Params } from '../../language/params.ts'
import type { TextPart } from '../../language/part.ts'
import type { TextRewrite } from '../../language/text-segment.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import type { FilterSet } from '../../limits/filters/filter-set.ts'
import type { Match } from '../../limits/filters/rule.ts'
import { answerBlocked, type Filtering, filterFailure } from '../filtering.ts'
import type { AnswerFilter, ContentFiltering } from '../kind.ts'
import { defineKind } from './define-kind.ts'
import {
  type Rewriter,
  rewriteBlocks,
  rewriteEach,
  rewriteExtra,
  rewriteText,
  rewriteValue,
} from './rewrite.ts'
import { ChoiceFilter } from './text/choice-filter.ts'
import { isMeaningful, metering } from './text/metering.ts'
import { costing, matchesModalities, readApiType, understanding } from './text/understanding.ts'

const filtering: ContentFiltering<'text'> = {
  rewriteTexts,
  filterAnswer: (call, filtering, filterSet) => new TextFilter(call, filtering, filterSet),
}

/**
 * Rewrites every text that may have been typed: messages and names, predictions, response formats,
 * descriptions of tools. Does not change the call that it gets.
 */
async function rewriteTexts(call: TextCall, rewriteSegment: TextRewrite): Promise<TextCall> {
  const messages = await rewriteEach(call.messages, message =>
    rewriteMessage(message, rewriteSegment),
  )
  const rewrite = (tool: Tool) => rewriteTool(tool, { role: 'system', rewriteSegment })
  const tools = call.tools.length > 0 ? await rewriteEach(call.tools, rewrite) : call.tools
  const extra = await rewriteValue(call.extra, { role: 'user', rewriteSegment })
  return {
    ...call,
    messages,
    tools,
    extra,
    params: await rewriteParams(call.params, rewriteSegment),
  }
}

async function rewriteMessage(message: Message, rewriteSegment: TextRewrite): Promise<Message> {
  const rewriter: Rewriter = { role: message.role, rewriteSegment }
  const rewritten = { ...message, blocks: await rewriteBlocks(message.blocks, rewriter) }
  if (message.tool_call_id !== undefined)
    rewritten.tool_call_id = await rewriteText(message.tool_call_id, rewriter)
  if (message.name !== undefined) rewritten.name = await rewriteText(message.name, rewriter)
  return rewriteExtra(rewritten, rewriter)
}

// The type is ours: a pattern such as `function` must not change it.
async function rewriteTool(tool: Tool, rewriter: Rewriter): Promise<Tool> {
  if (tool.type === 'other') return { ...tool, value: await rewriteValue(tool.value, rewriter) }
  const { type, ...members } = tool
  return { type, ...(await rewriteValue(members, rewriter)) }
}

/** Parameters that hold words, each with the role whose words they are. */
const SPOKEN = [
  ['prediction', 'assistant'],
  ['response_format', 'system'],
] as const

async function rewriteParams(params: Params, rewriteSegment: TextRewrite): Promise<Params> {
  const rewritten: Record<string, unknown> = { ...params }
  for (const [name, role] of SPOKEN)
    if (name in params)
      rewritten[name] = await rewriteValue(rewritten[name], { role, rewriteSegment })
  return rewriteNames(rewritten as Params, { role: 'system', rewriteSegment })
}

/**
 * Rewrites what is not spoken but typed all the same. A tool must have the same name everywhere, so
 * what names it is rewritten here, before a protocol looks for it.
 */
async function rewriteNames(params: Params, rewriter: Rewriter): Promise<Params> {
  const rewritten = { ...params }
  const rewrite = (text: string) => rewriteText(text, rewriter)
  const { stop, tool_choice, prompt_cache_key } = params
  if (stop) rewritten.stop = await rewriteEach(stop, rewrite)
  if (prompt_cache_key !== undefined) rewritten.prompt_cache_key = await rewrite(prompt_cache_key)
  if (isFunctionChoice(tool_choice)) {
    const name = await rewrite(tool_choice.function.name)
    rewritten.tool_choice = { type: 'function', function: { name } }
  } else if (isAllowance(tool_choice))
    rewritten.tool_choice = await rewriteAllowance(tool_choice, rewriter)
  return rewritten
}

type Allowance = { type: string; allowed_tools: Json }

const isAllowance = (choice: ToolChoice | undefined): choice is Allowance =>
  isObject(choice) && 'allowed_tools' in choice && isObject(choice.allowed_tools)

// Its own words stay, as `rewriteTool` has it: only what names tools is typed.
async function rewriteAllowance(choice: Allowance, rewriter: Rewriter): Promise<Allowance> {
  const { allowed_tools } = choice
  const tools = await rewriteEach(readObjects(allowed_tools.tools), async ({ type, ...named }) => ({
    type,
    ...(await rewriteValue(named, rewriter)),
  }))
  return { ...choice, allowed_tools: { ...allowed_tools, tools } }
}

const isFunctionChoice = (
  choice: ToolChoice | undefined,
): choice is Extract<ToolChoice, { function: unknown }> =>
  typeof choice === 'object' && 'function' in choice

/**
 * Filters an answer of text as it streams: words, refusals, reasoning and arguments of tools, each
 * choice by itself. An answer that is not streamed is held back until its end, so that a blocked
 * one gives nothing at all.
 */
export class TextFilter implements AnswerFilter<TextPart> {
  readonly #isStreamed: boolean
  readonly #filtering: Filtering
  readonly #filterSet: FilterSet
  readonly #choices = new Map<number, ChoiceFilter>()
  readonly #heldBack: TextPart[] = []
  blocked: GatewayError | null = null

  constructor({ stream }: TextCall, filtering: Filtering, filterSet: FilterSet) {
    this.#isStreamed = stream
    this.#filtering = filtering
    this.#filterSet = filterSet
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    const out: TextPart[] = []
    const passed = this.#isStreamed ? out : this.#heldBack
    for (const part of parts) {
      if (!('choice' in part)) out.push(this.readHead(part))
      else if (!this.blocked) passed.push(...(await this.#getChoiceFilter(part.choice).read(part)))
    }
    return out
  }

  // What a provider says of itself before it answers is short.
  readHead(part: TextPart): TextPart {
    if (part.type !== 'start') return part
    const { value, found } = runAtOnce(this.#filterSet.filterUnread(part))
    for (const { match } of found) this.#noteMatch(match)
    return this.#filterSet.alters ? value : part
  }

  async end(): Promise<TextPart[]> {
    const out = this.#heldBack
    for (const choice of this.#choices.values()) out.push(...(await choice.end()))
    return this.blocked && !this.#isStreamed ? [] : out
  }

  readFailure(thrown: unknown): GatewayError {
    return filterFailure(this.#filtering, GatewayError.from(thrown))
  }

  #getChoiceFilter(index: number): ChoiceFilter {
    const existing = this.#choices.get(index)
    if (existing) return existing
    const filter = new ChoiceFilter(this.#filterSet, match => this.#noteMatch(match))
    this.#choices.set(index, filter)
    return filter
  }

  #noteMatch({ rule }: Match): void {
    this.#filtering.noteMatch(rule, 'output')
    if (rule.action === 'block') this.blocked ??= answerBlocked(rule)
  }
}

/** Conversations and completions: text in, text out, and whatever else models accept or return. */
export const text = defineKind<'text'>({
  apiType: 'completions',
  readApiType,
  outputName: 'text',
  matchesModalities,
  isMeaningful,
  needsWhole: ({ dialect, stream }) => !stream && !TEXT_DIALECTS[dialect].showsPart,
  isFailure: part => part.type === 'finish' && part.reason === 'error',
  understanding,
  costing,
  metering,
  filtering,
})
