import { GatewayError, invalid, unavailable } from '../../base/errors.ts'
import { isObject, type Json } from '../../base/json.ts'
import type { Config } from '../../config.ts'
import { kinds } from '../../engine/kinds.ts'
import { requireService } from '../../engine/plan/constraints.ts'
import { enterService } from '../../engine/reserve/service.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import type { ServerToolRequest } from '../../language/server-tools.ts'
import type { TextRewrite } from '../../language/text-segment.ts'
import { askProvider } from '../../network/side-request.ts'
import type { Provider } from '../../resources/providers/provider.ts'
import { type Plugin, requireOptions } from '../plugin.ts'
import type { ExtensionWorld } from '../world.ts'

/** Which provider judges calls. */
type Judge = NonNullable<Config['plugins']['moderation']>

/**
 * The `moderation` plugin: a provider's model judges what the call says, as content filters left
 * it, before it is sent. What it objects to is blocked with 403. A judge that does not answer, or
 * that rules keep the call from, blocks it as well.
 */
export const moderation: Plugin<Judge> = {
  id: 'moderation',
  readOptions(entry, at, { plugins }) {
    requireOptions(entry, at, [])
    if (plugins.moderation) return plugins.moderation
    throw invalid(`${at}.id: this gateway has no provider that moderates`, `${at}.id`)
  },
  review: (world, run, judge) =>
    run.call.kind === 'text' ? reviewCall(world, run, run.call, judge) : Promise.resolve(null),
}

/** The most characters that are judged. A longer call is refused: it would pass unread. */
const MOST_CHARACTERS = 1024 * 1024

/** The characters of one text, and how many texts are sent at once. */
const LONGEST_INPUT = 16 * 1024
const TIMEOUT = 30_000
const LARGEST_ANSWER = 4 * 1024 * 1024

async function reviewCall(
  world: ExtensionWorld,
  run: Run,
  call: TextCall,
  judge: Judge,
): Promise<GatewayError | null> {
  const provider = findProvider(world, judge)
  requireService(world, run, { ...judge, name: 'moderation' })
  const input = (await listTexts(call)).flatMap(cutText)
  if (input.reduce((sum, text) => sum + text.length, 0) > MOST_CHARACTERS)
    throw invalid('messages: expected at most 1 MiB of text, which is all that is moderated')
  if (input.length === 0) return null
  const leave = await enterService(world, run, run.cancellation)
  const answer = await askProvider(world, provider, {
    path: '/moderations',
    body: { model: judge.model, input },
    maxBytes: LARGEST_ANSWER,
    timeoutMilliseconds: TIMEOUT,
    cancellation: run.cancellation,
  }).finally(leave)
  const verdicts = readVerdicts(answer, input.length)
  if (!verdicts) throw unavailable(`${provider.name} gave no verdict`)
  const flagged = verdicts.findIndex(verdict => verdict !== null)
  run.pluginStages.push(buildStage(judge, verdicts))
  return flagged === -1
    ? null
    : blocked(provider, judge, verdicts[flagged] ?? [], input[flagged] ?? '')
}

function findProvider({ catalog }: ExtensionWorld, judge: Judge): Provider {
  const provider = catalog.providers.get(judge.provider)
  if (provider?.configured) return provider
  throw unavailable(`${judge.provider}, which moderates, is not configured`)
}

/**
 * Lists what the call tells models, wherever it does: in messages, in descriptions of tools and of
 * the answer, in parameters that providers know, and to the models that tools ask.
 */
async function listTexts(call: TextCall): Promise<string[]> {
  const texts: string[] = []
  const collect: TextRewrite = async ({ pieces, isJson }) => {
    texts.push(...(isJson ? pieces.map(dropBytes) : pieces))
    return pieces
  }
  const messages = call.messages.map(leaveWords)
  await kinds.text.filtering.rewriteTexts({ ...call, messages }, collect)
  return [...texts, ...listInstructions(call.serverTools?.requests ?? [])]
}

/** Leaves out the ids of tool calls, and files whose words are there. */
function leaveWords({ tool_call_id: _, ...message }: Message): Message {
  return { ...message, blocks: message.blocks.map(leaveBlockWords) }
}

function leaveBlockWords(block: Block): Block {
  if (block.type === 'tool-call') return { ...block, id: '' }
  if (block.type !== 'file' || !block.parsed) return block
  const { filename } = block.file
  return { ...block, file: filename === undefined ? {} : { filename } }
}

const BASE64 = /[A-Za-z0-9+/]{512,}={0,2}/g

/** Leaves out what only programs read: pictures, and data that a provider has sealed. */
const dropBytes = (json: string): string => json.replace(BASE64, '')

/** Lists what tools tell the models that they ask, and the tools of those. */
function listInstructions(requests: ServerToolRequest[]): string[] {
  return requests.flatMap(({ options }) => {
    if (!isObject(options)) return []
    const { instructions, tools } = options
    const own = typeof instructions === 'string' ? [instructions] : []
    return Array.isArray(tools) ? [...own, ...listInstructions(tools)] : own
  })
}

function cutText(text: string): string[] {
  const pieces: string[] = []
  for (let at = 0; at < text.length; at += LONGEST_INPUT)
    pieces.push(text.slice(at, at + LONGEST_INPUT).toWellFormed())
  return pieces
}

/** Reads the categories that each text was flagged for; null for one that was not. */
function readVerdicts({ results }: Json, count: number): (string[] | null)[] | null {
  if (!Array.isArray(results) || results.length !== count) return null
  const verdicts = results.map(readVerdict)
  return verdicts.includes(undefined) ? null : (verdicts as (string[] | null)[])
}

function readVerdict(result: unknown): string[] | null | undefined {
  if (!isObject(result) || typeof result.flagged !== 'boolean') return undefined
  if (!result.flagged) return null
  const categories = isObject(result.categories) ? Object.entries(result.categories) : []
  return categories.flatMap(([name, applies]) => (applies === true ? [name.slice(0, 64)] : []))
}

/** The error of wire reference L.4. */
const blocked = (
  provider: Provider,
  { model }: Judge,
  reasons: string[],
  text: string,
): GatewayError =>
  new GatewayError('permission_denied', 'Request blocked: it was flagged by moderation', {
    metadata: {
      reasons,
      flagged_input: shorten(text),
      provider_name: provider.name,
      model_slug: model,
    },
  })

const LONGEST_QUOTE = 100

function shorten(text: string): string {
  if (text.length <= LONGEST_QUOTE) return text
  const half = Math.floor((LONGEST_QUOTE - 1) / 2)
  return `${text.slice(0, half)}…${text.slice(-half)}`.toWellFormed()
}

const buildStage = (judge: Judge, verdicts: (string[] | null)[]) => {
  const categories = [...new Set(verdicts.flatMap(verdict => verdict ?? []))]
  const flagged = verdicts.some(verdict => verdict !== null)
  return {
    type: 'plugin' as const,
    name: 'moderation',
    summary: flagged ? 'The call was flagged.' : 'Nothing was flagged.',
    data: { flagged, categories, provider: judge.provider, model: judge.model },
  }
}
