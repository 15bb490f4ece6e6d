import type { GatewayError } from '../../base/errors.ts'
import { toUsd } from '../../base/money.ts'
import { kinds } from '../../engine/kinds.ts'
import type { Attempt, RecordedUse, Run, Step } from '../../engine/run.ts'
import { sumRunReceipts } from '../../engine/settle/receipt.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import {
  countInputTokens,
  countOutputTokens,
  createTextUsage,
  type Receipt,
} from '../../language/usage.ts'
import type { Kind, Work } from '../../language/work.ts'
import type {
  ExportedAttempt,
  ExportedCall,
  ExportedGroups,
  ExportedStep,
} from '../../observability/destinations/exported-call.ts'
import type { OpenedDestination } from '../../observability/destinations/opened.ts'
import type { TraceFacts, TraceOutput } from '../../observability/destinations/trace.ts'
import { resolveTrace } from '../../observability/destinations/trace-context.ts'
import type { Generation } from '../../observability/generations/store.ts'
import { nameFailure } from '../../observability/generations.ts'
import type { ExtensionWorld } from '../world.ts'
import type { GatheredAnswer } from './gathered-answer.ts'

/** Who is told of a call, and what was gathered of its answer; null for no content. */
interface Gathered {
  subscribers: OpenedDestination[]
  answer: GatheredAnswer | null
}

/** The most characters of these, as the public service has them (wire reference G.4). */
const [LONGEST_USER, LONGEST_SESSION] = [128, 256]

const cutUser = (user: string | undefined) => user?.slice(0, LONGEST_USER)
const cutSession = (session: string | null) => session?.slice(0, LONGEST_SESSION)

/** Builds what is kept of a finished run for those who are told. */
export function buildExportedCall(
  world: ExtensionWorld,
  run: Run,
  generation: Generation,
  { subscribers, answer }: Gathered,
): ExportedCall {
  const { call, actor } = run
  const receipt = sumRunReceipts(run)
  const key = actor.key_hash === null ? undefined : world.memory.keys.get(actor.key_hash)
  const steps = generation.steps.length === 0 ? NO_STEPS : listExportedSteps(run)
  return {
    id: call.id,
    workspace_id: actor.workspace_id,
    key_hash: actor.key_hash,
    region: call.origin.region,
    session_id: call.session_id,
    facts: buildFacts(run, generation, receipt, key?.name ?? null),
    input: answer && renderInput(run.kind, call),
    output: answer && buildOutput(run, answer),
    trace: resolveTrace(call),
    attempts: listExportedAttempts(run, steps),
    steps: steps.length === 0 ? [] : steps.map(({ step: _, ...told }) => told),
    groups: buildGroups(world, run, generation, subscribers),
  }
}

/** Converts steady milliseconds to those since the epoch. */
const toEpoch = ({ created, startedAt }: Run, ticks: number): number =>
  created.getTime() + ticks - startedAt

function buildFacts(
  run: Run,
  generation: Generation,
  receipt: Receipt,
  apiKeyName: string | null,
): TraceFacts {
  const { call, ending, startedAt } = run
  const { cache_write, cache_write_1h } = receipt.usage.input
  return {
    kind: run.kind,
    model: generation.model,
    author: readAuthor(generation.model),
    providerName: generation.provider_name,
    finishReason: ending?.error ? null : generation.finish_reason,
    nativeFinishReason: generation.native_finish_reason,
    error: describeEnd(generation, ending?.error ?? null),
    userId: cutUser(call.endUser) ?? null,
    sessionId: cutSession(call.session_id) ?? null,
    apiKeyName,
    streamed: generation.streamed,
    startedAt: run.created.getTime(),
    endedAt: toEpoch(run, ending?.endedAt ?? startedAt),
    firstTokenMs: generation.latency,
    promptTokens: generation.native_tokens_prompt,
    completionTokens: generation.native_tokens_completion,
    cachedTokens: generation.native_tokens_cached,
    cacheWriteTokens: cache_write + cache_write_1h,
    reasoningTokens: generation.native_tokens_reasoning,
    ...splitCost(receipt),
    parameters: pickParameters(call.params),
  }
}

/**
 * Splits what was charged. Where callers pay their provider, both parts are zero, as their sum is.
 */
function splitCost({ cost, cost_details: details }: Receipt) {
  if (cost === null) return { inputCost: null, outputCost: null, totalCost: null }
  const prompt = details?.prompt ?? 0n
  const input = prompt < cost ? prompt : cost
  return { inputCost: toUsd(input), outputCost: toUsd(cost - input), totalCost: toUsd(cost) }
}

function readAuthor(model: string): string {
  const end = model.indexOf('/')
  return end === -1 ? model : model.slice(0, end)
}

/** Says why a call failed, under the name that its record has for it. */
const describeEnd = (generation: Generation, error: GatewayError | null) =>
  error && { type: nameFailure(generation) ?? error.type, message: error.message }

const describeError = (error: GatewayError | null) =>
  error && { type: error.type, message: error.message }

/** The parameters that are told: none of them holds content. */
const PARAMETERS = [
  ...['temperature', 'top_p', 'top_k', 'min_p', 'top_a', 'frequency_penalty', 'presence_penalty'],
  ...['repetition_penalty', 'max_tokens', 'seed', 'verbosity', 'service_tier'],
] as const

function pickParameters(params: object): Record<string, unknown> {
  const picked: Record<string, unknown> = {}
  for (const name of PARAMETERS) {
    const value: unknown = params[name as keyof typeof params]
    if (value !== undefined) picked[name] = value
  }
  return picked
}

// Field by field, as the rest here: each call with a destination has one.
function buildOutput(run: Run, answer: GatheredAnswer): TraceOutput {
  const { models, stream, params, endUser, session_id, trace } = run.call
  const rawRequest: Record<string, unknown> = { model: models[0] ?? null, stream }
  Object.assign(rawRequest, params)
  const tools = listTools(run)
  if (tools.length > 0) rawRequest.tools = tools.map(renderTool)
  if (endUser !== undefined) rawRequest.user = cutUser(endUser)
  if (session_id !== null) rawRequest.session_id = cutSession(session_id)
  if (trace !== null) rawRequest.trace = trace
  const output: TraceOutput = answer.build()
  output.rawRequest = rawRequest
  return output
}

const listTools = ({ call }: Run): TextCall['tools'] => ('tools' in call ? call.tools : [])

const renderTool = (tool: TextCall['tools'][number]): unknown =>
  tool.type === 'other'
    ? { type: 'other' }
    : {
        type: 'function',
        function: {
          name: tool.name,
          ...(tool.description === undefined ? {} : { description: tool.description }),
          ...(tool.parameters === undefined ? {} : { parameters: tool.parameters }),
        },
      }

/** A step, and the step of the run that it tells of; null for the use of a tool. */
type ListedStep = ExportedStep & { step: Step | null }

/** Most calls have one turn, which no list tells. */
const NO_STEPS: ListedStep[] = []

/** Lists what a run did, in order, with what the uses of its tools did themselves. */
function listExportedSteps(
  run: Run,
  root = run,
  within: number | null = null,
  from = 0,
): ListedStep[] {
  const listed: ListedStep[] = []
  const addUses = (uses: RecordedUse[], startedAt: number) => {
    for (const use of uses) {
      const place = from + listed.length
      listed.push(toToolStep(root, use, within, startedAt))
      for (const inner of run.inner)
        if (inner.within === use.invocation)
          listed.push(...listExportedSteps(inner, root, place, from + listed.length))
    }
  }
  const uses = run.toolLoop?.uses ?? []
  const listTurn = (turn: number) => uses.filter(use => use.turn === turn)
  addUses([...run.openingUses, ...listTurn(0)], run.startedAt)
  run.steps.forEach((step, i) => {
    const endedAt = step.endedAt ?? run.ending?.endedAt ?? step.startedAt
    listed.push(toModelStep(root, step, within, endedAt))
    addUses(listTurn(i + 1), endedAt)
  })
  return listed
}

function toModelStep(root: Run, step: Step, within: number | null, endedAt: number): ListedStep {
  const { call, answer, receipt, attempts } = step
  const usage = receipt?.usage ?? createTextUsage(0, 0)
  return {
    type: 'model',
    name: answer?.endpoint.model ?? call.models[0] ?? '',
    within,
    startedAt: toEpoch(root, step.startedAt),
    endedAt: toEpoch(root, endedAt),
    error: answer ? null : describeError(attempts.at(-1)?.error ?? null),
    promptTokens: countInputTokens(usage),
    completionTokens: countOutputTokens(usage),
    step,
  }
}

function toToolStep(
  root: Run,
  { offered, call, latency, result, error }: RecordedUse,
  within: number | null,
  startedAt: number,
): ListedStep {
  const isError = result?.isError ?? true
  return {
    type: 'tool',
    name: (offered?.request.type ?? call.name).slice(0, LONGEST_USER),
    within,
    startedAt: toEpoch(root, startedAt),
    endedAt: toEpoch(root, startedAt + latency),
    error: describeError(error) ?? (isError ? { type: 'tool', message: 'The tool failed' } : null),
    promptTokens: 0,
    completionTokens: 0,
    step: null,
  }
}

function listExportedAttempts(run: Run, listed: ListedStep[]): ExportedAttempt[] {
  const told: ExportedAttempt[] = []
  if (listed.length === 0) for (const step of run.steps) addAttempts(told, run, step, 0)
  for (const [place, { step }] of listed.entries()) if (step) addAttempts(told, run, step, place)
  return told
}

function addAttempts(told: ExportedAttempt[], run: Run, step: Step, place: number): void {
  for (const attempt of step.attempts) told.push(toExportedAttempt(run, step, attempt, place))
}

function toExportedAttempt(run: Run, step: Step, attempt: Attempt, place: number): ExportedAttempt {
  const { endpoint, latency, status, request_id, error, sentAt, decidedAt } = attempt
  const sent = sentAt ?? step.startedAt
  const startedAt = toEpoch(run, sent)
  const isAnswer = error === null && step.answer?.endpoint === endpoint
  const endedAt = step.endedAt ?? run.ending?.endedAt ?? null
  return {
    step: place,
    provider: endpoint.provider.name,
    slug: endpoint.provider.slug,
    model: endpoint.model,
    endpoint_id: `${endpoint.provider.slug}/${endpoint.upstreamModel}`,
    is_byok: endpoint.is_byok,
    status,
    request_id,
    error: describeError(error),
    latency,
    startedAt,
    answeredAt: toEpoch(run, decidedAt ?? sent),
    endedAt: isAnswer && endedAt !== null ? toEpoch(run, endedAt) : null,
  }
}

/**
 * Builds the groups that some destination has opted into: few have, and each is as long as all the
 * rest. What a call does not have is left out.
 */
function buildGroups(
  world: ExtensionWorld,
  run: Run,
  generation: Generation,
  subscribers: OpenedDestination[],
): ExportedGroups {
  const groups: ExportedGroups = {}
  for (const { destination } of subscribers) {
    if (destination.broadcast_generation_cost) groups.cost ??= buildCostGroup(generation)
    if (destination.broadcast_generation_identity)
      groups.identity ??= buildIdentityGroup(world, run, generation)
    if (destination.broadcast_generation_request_context)
      groups.request_context ??= buildContextGroup(run, generation)
  }
  return groups
}

function buildCostGroup(generation: Generation): Record<string, unknown> {
  const { total_cost, upstream_inference_cost: upstream, is_byok } = generation
  return {
    usage: total_cost === null ? undefined : toUsd(total_cost),
    usage_upstream: upstream === null ? undefined : toUsd(upstream),
    byok_usage_inference: is_byok && upstream !== null ? toUsd(upstream) : 0,
    is_byok,
    tokens_prompt: generation.native_tokens_prompt,
    tokens_completion: generation.native_tokens_completion,
  }
}

function buildIdentityGroup(
  { memory: { keys, workspaces } }: ExtensionWorld,
  { actor, call }: Run,
  generation: Generation,
): Record<string, unknown> {
  const key = actor.key_hash === null ? undefined : keys.get(actor.key_hash)
  const workspace = workspaces.get(actor.workspace_id)
  return {
    generation_id: generation.id,
    request_id: generation.request_id,
    upstream_id: generation.upstream_id ?? undefined,
    'app.title': generation.title ?? undefined,
    'app.url': generation.http_referer ?? undefined,
    user_agent: generation.user_agent ?? undefined,
    api_key_name: key?.name,
    api_key_label: key?.label,
    api_key_hash: actor.key_hash ?? undefined,
    api_key_creator_user_id: key?.creator_user_id ?? undefined,
    creator_user_id: actor.user_id,
    external_user: cutUser(call.endUser),
    session_id: cutSession(generation.session_id),
    preset_id: generation.preset_id ?? undefined,
    workspace_id: actor.workspace_id,
    workspace_slug: workspace?.slug,
    workspace_name: workspace?.name,
  }
}

function buildContextGroup(run: Run, generation: Generation): Record<string, unknown> {
  return {
    api_type: generation.api_type,
    model: generation.model,
    requested_model: run.call.models[0],
    provider_name: generation.provider_name ?? undefined,
    router: generation.router ?? undefined,
    data_region: generation.data_region,
    service_tier: generation.service_tier ?? undefined,
    streamed: generation.streamed,
    cancelled: generation.cancelled,
    finish_reason: generation.finish_reason ?? undefined,
    native_finish_reason: generation.native_finish_reason ?? undefined,
    latency: generation.latency ?? undefined,
    generation_time: generation.generation_time ?? undefined,
    created_at: generation.created_at,
    attempts: generation.provider_responses.length,
    steps: run.steps.length,
    tools: listTools(run).length,
    native_tokens_reasoning: generation.native_tokens_reasoning,
    native_tokens_cached: generation.native_tokens_cached,
  }
}

/** The most characters that are kept of what was asked: receivers would cut what is longer. */
const LONGEST = 10_000_000

/**
 * Renders what a call asks as a chat request's `messages`, without media: a word stands for each.
 * Kinds without a conversation have one message of the user for each input.
 */
export function renderInput<K extends Kind>(kind: K, call: Work[K]['call']): unknown[] {
  const budget = { left: LONGEST }
  const messages = (call as { messages?: Message[] }).messages
  if (messages) return messages.map(message => renderMessage(message, budget))
  return kinds[kind].understanding
    .readContents(call)
    .map(blocks => ({ role: 'user', content: renderContent(blocks, budget) }))
}

interface Budget {
  left: number
}

interface RenderedMessage {
  role: string
  content: unknown
  name?: string
  tool_call_id?: string
  reasoning?: string
  tool_calls?: unknown[]
}

// Field by field: each call with a destination has all its messages rendered.
function renderMessage({ role, blocks, name, tool_call_id }: Message, budget: Budget) {
  const message: RenderedMessage = { role, content: renderContent(blocks, budget) }
  if (name !== undefined) message.name = name
  if (tool_call_id !== undefined) message.tool_call_id = tool_call_id
  const reasoning = blocks.find(block => block.type === 'reasoning')?.text
  if (reasoning) message.reasoning = cut(reasoning, budget)
  for (const block of blocks)
    if (block.type === 'tool-call') {
      message.tool_calls ??= []
      message.tool_calls.push(renderToolCall(block, budget))
    }
  return message
}

const renderToolCall = (
  { id, name, input }: Extract<Block, { type: 'tool-call' }>,
  budget: Budget,
) => ({ id, type: 'function', function: { name, arguments: cut(input, budget) } })

function renderContent(blocks: Block[], budget: Budget): unknown {
  const texts: string[] = []
  for (const block of blocks) {
    const text = readText(block)
    if (text !== null) texts.push(cut(text, budget))
  }
  if (texts.length <= 1) return texts[0] ?? null
  return texts.map(text => ({ type: 'text', text }))
}

function readText(block: Block): string | null {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return block.text
    case 'tool-call':
    case 'reasoning':
      return null
    default:
      return `[${block.type}]`
  }
}

function cut(text: string, budget: Budget): string {
  const kept = text.length <= budget.left ? text : text.slice(0, budget.left)
  budget.left -= kept.length
  return kept
}
