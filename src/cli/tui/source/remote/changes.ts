import type { Remote } from '../../../remote.ts'
import type { Change } from '../../source.ts'

/** What makes a change over the API; a sentence where only the server's host can. */
type Request = [Parameters<Remote['ask']>[0], (id: string) => string] | string

const join = (path: string) => (id: string) => `${path}/${encodeURIComponent(id)}`
const under = (path: string, rest: string) => (id: string) => join(path)(id) + rest

/** The requests of a noun that is created, changed and deleted as all are. */
const buildUsual = (noun: string, path: string): Record<string, Request> => ({
  [`${noun} create`]: ['POST', () => path],
  [`${noun} update`]: ['PATCH', join(path)],
  [`${noun} delete`]: ['DELETE', join(path)],
})

const findBudgetPath = (id: string): string => {
  const [workspace = '', interval = ''] = id.split(' ')
  return join(under('/workspaces', '/budgets')(workspace))(interval)
}

/** Every change, by its noun and its verb. */
const REQUESTS: Record<string, Request> = {
  ...buildUsual('keys', '/keys'),
  ...buildUsual('workspaces', '/workspaces'),
  ...buildUsual('guardrails', '/guardrails'),
  ...buildUsual('byok', '/byok'),
  ...buildUsual('destinations', '/observability/destinations'),
  'workspaces add': ['POST', under('/workspaces', '/members/add')],
  'workspaces remove': ['POST', under('/workspaces', '/members/remove')],
  'members create': 'Members are added',
  'members update': 'Members are renamed',
  'members deactivate': 'Members are deactivated',
  'budgets set': ['PUT', findBudgetPath],
  'budgets delete': ['DELETE', findBudgetPath],
  // The API lets inference keys alone make presets, and has nothing that changes them.
  'presets create': 'Presets are created',
  'presets update': 'Presets are disabled, enabled and archived',
  'guardrails assign-keys': ['POST', under('/guardrails', '/assignments/keys')],
  'guardrails unassign-keys': ['POST', under('/guardrails', '/assignments/keys/remove')],
  'guardrails assign-members': ['POST', under('/guardrails', '/assignments/members')],
  'guardrails unassign-members': ['POST', under('/guardrails', '/assignments/members/remove')],
  'credits create': 'Credits are added',
}

/**
 * Makes a change of a gateway elsewhere. Returns a text that is shown this once: a new key. Throws
 * a sentence for what its API has no request for, and what the gateway refuses it with.
 */
export async function makeRemoteChange(remote: Remote, change: Change): Promise<string | null> {
  const { noun, verb, id, input } = change
  const request = REQUESTS[`${noun} ${verb}`]
  if (!request) throw new Error(`${noun} know no ${verb}`)
  if (typeof request === 'string') throw new Error(`${request} at the server's own host alone`)
  const [method, findPath] = request
  const body = method === 'DELETE' ? undefined : input
  const answer = (await remote.ask(method, findPath(id), body)) as { key?: unknown } | undefined
  return noun === 'keys' && typeof answer?.key === 'string' ? answer.key : null
}
