import { resolve } from 'node:path'
import type { Gateway } from '../../../app/gateway.ts'
import { getCallStatus } from '../../../observability/generations.ts'
import type { Actor } from '../../../resources/actor.ts'
import { getDataDirectory } from '../../data-directory.ts'
import { askServer, openLocalFeed } from '../../feed.ts'
import type { CommonOptions } from '../../options.ts'
import { withGateway } from '../../with-gateway.ts'
import { createCall, type LiveCall } from '../live.ts'
import type { Budget, CallRecord, Money, Noun, PastExplanation, Source } from '../source.ts'
import { type QueryRows, readGroups, toBudgetRows } from './money.ts'

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
    list: noun => run((gateway, actor) => LISTS[noun](gateway, actor)),
    change: change =>
      run(async (gateway, actor) => {
        const { makeLocalChange } = await import('./local/changes.ts')
        return makeLocalChange(gateway, actor, change)
      }),
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

async function listAllKeys(gateway: Gateway, actor: Actor) {
  const { listKeys } = await import('../../../resources/keys.ts')
  return listKeys(gateway, actor, { include_disabled: 'true', ...EVERYTHING }).data
}

async function readMoney(gateway: Gateway, actor: Actor): Promise<Money> {
  const { getCredits } = await import('../../../limits/credits.ts')
  const { queryAnalytics } = await import('../../../observability/analytics.ts')
  const query: QueryRows = async body => (await queryAnalytics(gateway, actor, body)).data.data
  const groups = await readGroups(query, gateway.clock.now())
  const budgets = (await LISTS.budgets(gateway, actor)) as Budget[]
  const findName = (id: string) => gateway.memory.workspaces.get(id)?.name ?? id
  return {
    credits: getCredits(gateway, actor).data,
    keys: await listAllKeys(gateway, actor),
    budgets: toBudgetRows(budgets, groups.workspace ?? [], findName),
    groups,
  }
}

/** Lists what is in each workspace, one workspace after the other. */
const listEverywhere = async (
  { memory: { workspaces } }: Gateway,
  list: (workspace_id: string) => object[] | Promise<object[]>,
): Promise<object[]> =>
  (await Promise.all([...workspaces.values()].map(({ id }) => list(id)))).flat()

/** The list of each noun, by the function that its command uses. */
const LISTS: Record<Noun, (gateway: Gateway, actor: Actor) => Promise<object[]>> = {
  keys: listAllKeys,
  async workspaces(gateway, actor) {
    const { listWorkspaces } = await import('../../../resources/workspaces.ts')
    return (await listWorkspaces(gateway, actor, EVERYTHING)).data
  },
  async members(gateway, actor) {
    const { listMembers } = await import('../../../resources/workspace-members.ts')
    return (await listMembers(gateway, actor, EVERYTHING)).data
  },
  async budgets(gateway, actor) {
    const { listBudgets } = await import('../../../limits/budgets.ts')
    return listEverywhere(gateway, id => listBudgets(gateway, actor, id).data)
  },
  async presets(gateway, actor) {
    const { listPresets } = await import('../../../resources/presets.ts')
    return listEverywhere(
      gateway,
      id => listPresets(gateway, { ...actor, workspace_id: id }, EVERYTHING).data,
    )
  },
  async guardrails(gateway, actor) {
    const { listGuardrails } = await import('../../../limits/guardrails.ts')
    return listEverywhere(
      gateway,
      workspace_id => listGuardrails(gateway, actor, { ...EVERYTHING, workspace_id }).data,
    )
  },
  async byok(gateway, actor) {
    const { listByokKeys } = await import('../../../resources/byok.ts')
    return listEverywhere(
      gateway,
      workspace_id => listByokKeys(gateway, actor, { ...EVERYTHING, workspace_id }).data,
    )
  },
  async destinations(gateway, actor) {
    const { listDestinations } = await import('../../../observability/destinations.ts')
    return listEverywhere(
      gateway,
      workspace_id => listDestinations(gateway, actor, { ...EVERYTHING, workspace_id }).data,
    )
  },
  async credits(gateway, actor) {
    const { listCredits } = await import('../../../limits/credits.ts')
    return (await listCredits(gateway, actor, { limit: 1_000 })).data
  },
  async audit(gateway, actor) {
    const { listAudit } = await import('../../../resources/audit.ts')
    return (await listAudit(gateway, actor, { limit: 1_000 })).data
  },
}

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
