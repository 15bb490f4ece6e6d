import { resolve } from 'node:path'
import type { Gateway } from '../../../app/gateway.ts'
import { requireValid } from '../../../base/body.ts'
import { getCallStatus } from '../../../observability/generations.ts'
import type { Actor } from '../../../resources/actor.ts'
import { getDataDirectory } from '../../data-directory.ts'
import { askServer, openLocalFeed } from '../../feed.ts'
import type { CommonOptions } from '../../options.ts'
import { withGateway } from '../../with-gateway.ts'
import { createCall, type LiveCall } from '../live.ts'
import type {
  Budget,
  CallRecord,
  Change,
  KeyRate,
  KeyRecord,
  Money,
  Noun,
  PastExplanation,
  Source,
} from '../source.ts'
import { type QueryRows, readGroups, toBudgetRows } from './money.ts'
import { findOperation, PLACED, pickSecret, splitId } from './nouns.ts'

/**
 * Opens a data directory. What is stored is read by the same functions as the commands use, also
 * while no server runs; what happens is told by its server.
 */
export function openLocalSource(options: CommonOptions): Source {
  const data = getDataDirectory(options)
  const run = <Result>(task: (gateway: Gateway, actor: Actor) => Result | Promise<Result>) =>
    withGateway(options, task)
  return {
    name: resolve(data),
    openFeed: () => openLocalFeed(data),
    listCalls: limit =>
      run(async (gateway, actor) => {
        const { listGenerations } = await import('../../../observability/generations.ts')
        const page = await listGenerations(gateway, actor, { limit })
        const nameKey = (hash: string | null) => (hash && gateway.memory.keys.get(hash)?.name) || ''
        return page.data.reverse().map(call => toLiveCall(call, nameKey(call.key_hash)))
      }),
    getCall: id =>
      run(async (gateway, actor) => {
        const { getGeneration } = await import('../../../observability/generations.ts')
        return (await getGeneration(gateway, actor, id)).data
      }),
    explainCall: id =>
      askServer(data, { do: 'explain', id })
        .catch(() => run((gateway, actor) => explainHere(gateway, actor, id)))
        .then(answer => (answer as { data: PastExplanation }).data),
    readMoney: () => run(readMoney),
    readRates: ({ hash }) => run(gateway => readRates(gateway, hash)),
    list: noun => run((gateway, actor) => listNoun(gateway, actor, noun)),
    change: change => run((gateway, actor) => makeLocalChange(gateway, actor, change)),
    rest: async (endpoint, seconds) => {
      await askServer(data, { do: 'rest', endpoint, seconds })
    },
    wake: async endpoint => {
      await askServer(data, { do: 'wake', endpoint })
    },
  }
}

/** How many rows of a noun are listed: a screen shows the first, and a filter finds the rest. */
const MOST_ROWS = 100_000
const EVERYTHING = { limit: MOST_ROWS }

// Without a server, or with one of another version, what is stored decides: no cooldowns.
async function explainHere(gateway: Gateway, actor: Actor, id: string) {
  const { explainGeneration } = await import('../../../app/past-request.ts')
  return explainGeneration(gateway, actor, id)
}

async function readMoney(gateway: Gateway, actor: Actor): Promise<Money> {
  const { getCredits } = await import('../../../limits/credits.ts')
  const { queryAnalytics } = await import('../../../observability/analytics.ts')
  const query: QueryRows = async body => (await queryAnalytics(gateway, actor, body)).data.data
  const groups = await readGroups(query, gateway.clock.now())
  const budgets = (await listNoun(gateway, actor, 'budgets')) as Budget[]
  const findName = (id: string) => gateway.memory.workspaces.get(id)?.name ?? id
  return {
    credits: getCredits(gateway, actor).data,
    keys: (await listNoun(gateway, actor, 'keys')) as KeyRecord[],
    budgets: toBudgetRows(budgets, groups.workspace ?? [], findName),
    groups,
  }
}

async function readRates(gateway: Gateway, hash: string): Promise<KeyRate[]> {
  const { getPolicy } = await import('../../../limits/effective.ts')
  const { buildKeyActor } = await import('../../../resources/actor.ts')
  const key = gateway.memory.keys.get(hash)
  const rates = key ? (getPolicy(gateway, buildKeyActor(gateway, key)).rates ?? []) : []
  return rates.map(({ account: _, guardrail: { name }, ...rate }) => ({ ...rate, name }))
}

/** What a list is asked for, where it is not everything. */
const QUERIES: Partial<Record<Noun, object>> = {
  keys: { include_disabled: 'true', ...EVERYTHING },
  credits: { limit: 1_000 },
  audit: { limit: 1_000 },
}

/** Lists a noun by the function that its command uses: where that is by workspace, each one's. */
async function listNoun(gateway: Gateway, actor: Actor, noun: Noun): Promise<object[]> {
  const { run } = await findOperation(noun, 'list')
  const list = async (owner: Actor, input: unknown) =>
    ((await run(gateway, owner, input as never)) as { data: object[] }).data
  const listEverywhere = async (listOne: (workspace_id: string) => Promise<object[]>) =>
    (await Promise.all([...gateway.memory.workspaces.values()].map(({ id }) => listOne(id)))).flat()
  if (noun === 'budgets') return listEverywhere(id => list(actor, id))
  if (noun === 'presets')
    return listEverywhere(workspace_id => list({ ...actor, workspace_id }, EVERYTHING))
  if (PLACED.has(noun))
    return listEverywhere(workspace_id => list(actor, { ...EVERYTHING, workspace_id }))
  return list(actor, QUERIES[noun] ?? EVERYTHING)
}

/**
 * Makes a change of a data directory. Returns a text that is shown this once: a new key. Throws 400
 * for an input that no such change takes, and what its core function throws.
 */
async function makeLocalChange(gateway: Gateway, actor: Actor, change: Change) {
  const { run, schema } = await findOperation(change.noun, change.verb)
  const input = schema ? [requireValid(schema, change.input)] : []
  const values = [...splitId(change), ...input] as never[]
  return pickSecret(change, await run(gateway, placeActor(actor, change), ...values))
}

// A preset belongs to the workspace of the actor.
const placeActor = (actor: Actor, { noun, workspace_id }: Change): Actor =>
  noun !== 'presets' || workspace_id === undefined ? actor : { ...actor, workspace_id }

/** Shows a record as the feed would have told the call. */
const toLiveCall = (call: CallRecord, key: string): LiveCall => ({
  ...createCall(call.id, call.created_at),
  state: 'done',
  status: getCallStatus(call),
  error: call.error_type,
  model: call.model,
  provider: call.provider_name ?? '',
  latency: call.latency,
  time: call.generation_time,
  tokens: call.native_tokens_completion,
  cost: call.total_cost,
  key,
  app: call.origin,
  attempts: call.provider_responses.map(attempt => ({
    endpoint: attempt.endpoint_id,
    provider: attempt.provider_name,
    model: attempt.model_permaslug,
    at: call.created_at,
    outcome: attempt.error ? 'failed' : 'answered',
    status: attempt.status,
    error_type: attempt.error?.type ?? null,
    message: attempt.error?.message ?? null,
    latency: attempt.latency,
  })),
})
