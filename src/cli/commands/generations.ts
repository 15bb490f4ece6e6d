import type { Gateway } from '../../app/gateway.ts'
import type { explainGeneration } from '../../app/past-request.ts'
import type { Feedback } from '../../observability/feedback.ts'
import type { getGeneration } from '../../observability/generations.ts'
import type { getGenerationContent } from '../../observability/transcripts.ts'
import { getDataDirectory } from '../data-directory.ts'
import { demand, fill, fillNamed, NUMBER, offer, PERIOD } from '../fields.ts'
import { GENERATIONS, KEYS } from '../names.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import type { CommonOptions } from '../options.ts'
import { formatDollars, print, printFields, printNote, printTable } from '../output.ts'
import { printExplanation } from './explain.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../observability/generations.ts')),
    ...(await import('../../observability/generations/filter.ts')),
    ...(await import('../../observability/transcripts.ts')),
    ...(await import('../../observability/feedback.ts')),
    ...(await import('../../app/past-request.ts')),
  }),
  {
    args: { id: 'its id, a beginning of it, or the request id that its caller saw' },
    names: { id: GENERATIONS },
  },
)

const LIST = [
  fill('id', '--id <id>', 'the call with this id or request id'),
  fillNamed('key_hash', '--key <key>', 'calls of this API key, by hash, name or label', KEYS),
  fill('model', '--model <id>', 'calls of this model'),
  fill('provider', '--provider <name>', 'calls that this provider answered'),
  fill(
    'status',
    '--status <status>',
    'ok, error, cancelled, an HTTP status, 4xx, 5xx or an error type',
  ),
  ...PERIOD,
  fill('app', '--app <name>', 'calls of this app, by its address or title'),
  fill('session_id', '--session <id>', 'calls of this session'),
  fill('limit', '--limit <n>', 'how many (20)', NUMBER),
  fill('cursor', '--cursor <id>', 'calls before the one with this id'),
  { ...offer('--all', 'all of them'), pages: 'core' as const },
]

const FEEDBACK = [
  demand(
    fill(
      'category',
      '--category <category>',
      'latency, incoherence, incorrect_response, formatting, billing, api_error or other',
    ),
  ),
  fill('comment', '--comment <text>', 'what was wrong, in your words'),
]

type Call = Awaited<ReturnType<typeof getGeneration>>['data']

/** Renders what a call cost: a model without a price is not free. */
const renderCost = ({ is_priced, total_cost }: Call): string =>
  is_priced ? formatDollars(total_cost) : 'unpriced'

/** `gateway generations`: finished calls. */
export const createGenerationsCommand = () =>
  defineNoun('generations', 'finished calls', [
    verb('list', 'list calls, newest first', LIST, core =>
      withInput(core.GenerationListQuery, core.listGenerations),
    ).printAs(async ({ data }, { gateway, flags, printList }) => {
      if (data.length === 0 && typeof flags.id === 'string') return printRefusals(gateway, flags.id)
      printList(
        ['WHEN', 'KEY', 'MODEL', 'PROVIDER', 'IN', 'OUT', 'COST', 'MS', 'END', 'ID'],
        data.map(call => [
          call.created_at,
          renderKey(gateway, call),
          call.model,
          call.provider_name,
          call.native_tokens_prompt,
          call.native_tokens_completion,
          renderCost(call),
          call.generation_time,
          renderEnd(call),
          call.id,
        ]),
      )
    }),
    verb('get <id>', 'show a call', [], core => core.getGeneration).printAs(
      async ({ data }, { core, gateway, actor }) => {
        printCall(gateway, data)
        printFeedback((await core.listFeedback(gateway, actor, data.id)).data)
      },
    ),
    verb(
      'content <id>',
      'show what was asked and answered in a call, where that is kept',
      [],
      core => core.getGenerationContent,
    ).printAs(({ data }) => printContent(data)),
    verb(
      'explain <id>',
      'explain what would happen to the same request now, as the running server knows it',
      [],
      (core, flags: CommonOptions) => async (gateway, actor, id) =>
        explainNow(flags, id, () => core.explainGeneration(gateway, actor, id)),
    ).printAs(({ data: { explanation, unknown } }) => {
      printExplanation(explanation)
      for (const sentence of unknown) printNote(sentence)
    }),
    verb('feedback <id>', 'say what was wrong with an answer', FEEDBACK, core =>
      withInput(core.FeedbackAbout, core.submitFeedbackAbout),
    ).printAs(() => print('Noted')),
    verb(
      'delete <id>',
      'delete what was asked and answered in a call, for good; its record stays',
      [],
      core => core.deleteGenerationContent,
    ).printAs((_, { named }) => print(`Deleted the content of ${named}`)),
  ])

type PastExplanation = Awaited<ReturnType<typeof explainGeneration>>

/** Asks the running server, which knows cooldowns; without one what is stored decides. */
async function explainNow(
  flags: CommonOptions,
  id: string,
  explainHere: () => Promise<PastExplanation>,
): Promise<PastExplanation> {
  const { askServer } = await import('../feed.ts')
  const asked = askServer(getDataDirectory(flags), { do: 'explain', id })
  return asked.catch(explainHere) as Promise<PastExplanation>
}

/** Prints how the calls with a request id were refused, as they became no generations. */
async function printRefusals(gateway: Gateway, id: string): Promise<void> {
  const { listRefusals } = await import('../../observability/refusals.ts')
  for (const { created_at, status, message } of (await listRefusals(gateway, { id })).data)
    print(`${created_at}  refused with ${status}: ${message}`)
}

const renderKey = ({ memory: { keys } }: Gateway, { key_hash }: Call): string => {
  const key = key_hash === null ? undefined : keys.get(key_hash)
  return key ? key.name || key.label : (key_hash?.slice(0, 12) ?? '-')
}

const renderEnd = ({ cancelled, error_type, finish_reason }: Call) =>
  cancelled ? 'cancelled' : (error_type ?? finish_reason)

/** Prints what a call was, what it cost, and each attempt with why it failed, on one screen. */
function printCall(gateway: Gateway, call: Call): void {
  const fields = {
    id: call.id,
    request_id: call.request_id,
    created_at: call.created_at,
    workspace: gateway.memory.workspaces.get(call.workspace_id)?.slug ?? call.workspace_id,
    key: renderKey(gateway, call),
    model: call.model,
    provider: call.provider_name,
    end: renderEnd(call),
    tokens:
      `${call.native_tokens_prompt} in (${call.native_tokens_cached} cached), ` +
      `${call.native_tokens_completion} out (${call.native_tokens_reasoning} reasoning)`,
    cost: `${renderCost(call)} (${call.usage_source})`,
    tree: call.steps.length > 0 ? renderTree(call.tree) : null,
    ms: `${call.generation_time ?? '-'}, first part after ${call.latency ?? '-'}`,
    app: call.origin || null,
    session: call.session_id,
    user: call.external_user,
    router: call.router,
    preset: call.preset_id,
    ignored: call.ignored.join(', ') || null,
    filters: call.content_filters.length > 0 ? call.content_filters : null,
  }
  printFields(Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)))
  if (call.steps.length > 0) {
    print('')
    printSteps(call.steps)
  }
  if (call.provider_responses.length === 0) return
  print('')
  printAttempts(call.provider_responses)
}

const renderTree = ({ requests, tokens, usd, ended_by }: Call['tree']): string =>
  `${requests} requests, ${tokens} tokens, ${formatDollars(usd)}` +
  (ended_by === null ? '' : `, ended by ${ended_by}`)

type Content = Awaited<ReturnType<typeof getGenerationContent>>['data']

/** Prints a conversation, one paragraph for each message, and what was answered. */
function printContent({ input, output, error }: Content): void {
  for (const message of 'prompt' in input
    ? [{ role: 'prompt', content: input.prompt }]
    : input.messages)
    printMessage(message as ChatMessage)
  if (output.reasoning !== null) printMessage({ role: 'reasoning', content: output.reasoning })
  if (output.completion !== null || output.tool_calls)
    printMessage({ role: 'answer', content: output.completion, tool_calls: output.tool_calls })
  for (const content of output.alternatives ?? []) printMessage({ role: 'alternative', content })
  if (error) printFields({ error: error.message, status: error.status })
}

interface ChatMessage {
  role: string
  content: unknown
  tool_calls?: unknown
}

function printMessage({ role, content, tool_calls }: ChatMessage): void {
  print(`[${role}]`)
  if (content !== null) print(typeof content === 'string' ? content : JSON.stringify(content))
  if (tool_calls !== undefined) print(JSON.stringify(tool_calls))
  print('')
}

function printFeedback(feedback: Feedback[]): void {
  if (feedback.length === 0) return
  print('')
  printTable(
    ['FEEDBACK', 'COMMENT', 'WHEN'],
    feedback.map(({ category, comment, created_at }) => [category, comment, created_at]),
  )
}

function printSteps(steps: Call['steps']): void {
  printTable(
    ['STEP', 'WHAT', 'PROVIDER', 'TOKENS', 'COST', 'MS', 'END'],
    steps.map((step, i) => [
      i + 1,
      step.function === null ? step.name : `${step.name} ${step.function}`,
      step.provider_name,
      step.type === 'tool'
        ? null
        : `${step.native_tokens_prompt} in, ${step.native_tokens_completion} out`,
      step.cost === null ? null : formatDollars(step.cost),
      step.latency,
      step.error_type ?? (step.is_error ? 'error' : (step.finish_reason ?? 'done')),
    ]),
  )
}

function printAttempts(attempts: Call['provider_responses']): void {
  printTable(
    ['ENDPOINT', 'STATUS', 'MS', 'ERROR', 'REQUEST ID'],
    attempts.map(({ endpoint_id, status, latency, error, request_id }) => [
      endpoint_id,
      status,
      latency,
      error && [error.type, error.code].filter(Boolean).join(' '),
      request_id,
    ]),
  )
  printFields(
    Object.fromEntries(
      attempts.flatMap(({ error }, i) => (error?.message ? [[`${i + 1}:`, error.message]] : [])),
    ),
  )
}
