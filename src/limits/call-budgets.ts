import { invalid } from '../base/errors.ts'
import { renderDollars, toUsd } from '../base/money.ts'
import type { CallBase } from '../language/call.ts'
import type { Dimension, StoredCallBudget } from './guardrails/store.ts'
import type { Account, Bound, Ledger, Limit, Subaccount } from './ledger.ts'

/** What the calls of an account are told apart by. */
export const DIMENSIONS = ['end_user', 'tag', 'model'] as const satisfies Dimension[]

/** What calls of one end user, tag or model may cost of what an account spends. */
export interface CallBudget extends Limit {
  by: Dimension
  /** Null: each that no other budget of the account names, by itself. */
  name: string | null
  /** The name as its subaccount has it. */
  id: string | null
  scope: 'workspace' | 'member' | 'key'
}

/** Whose call it is, as far as budgets tell calls apart. */
export type CallIdentity = Pick<CallBase, 'user' | 'endUser' | 'origin' | 'trace'>

/** A bound of the calls of one end user, tag or model. */
export interface CallBound extends Bound {
  account: Subaccount
}

/** How people call what calls are told apart by. */
export const WORDS = { end_user: 'end user', tag: 'tag', model: 'model' }
const OWNERS = { workspace: 'its workspace', member: 'its member', key: 'this key' }

/**
 * Hashes the caller's end user for providers and for the books: stable within a workspace, and never
 * the name that the caller sent (specification E8, E9).
 */
export function hashUser(workspace_id: string, user: string): string {
  return Bun.CryptoHasher.hash('sha256', `${workspace_id}:${user}`, 'hex')
}

/** Creates the budgets of one guardrail for the account that it applies to. */
export const buildCallBudgets = (
  budgets: StoredCallBudget[] | null,
  workspace_id: string,
  rest: Pick<CallBudget, 'account' | 'byok' | 'scope'>,
): CallBudget[] =>
  (budgets ?? []).map(({ by, name, limit_usd: limit, reset_interval: period }) => ({
    ...{ by, name, limit, period },
    id: by === 'end_user' && name !== null ? hashUser(workspace_id, name) : name,
    ...rest,
  }))

/**
 * Lists what bounds a call that these models may answer: its budgets, each for its own end user, tag
 * or model. Throws 400 for tags that are too many or too long.
 */
export function listCallBounds(
  budgets: CallBudget[],
  call: CallIdentity,
  models: string[],
): CallBound[] {
  const hasTags = budgets.some(({ by }) => by === 'tag')
  const names: Record<Dimension, { name: string; id: string }[]> = {
    end_user: call.user === null ? [] : [{ name: call.endUser ?? call.user, id: call.user }],
    tag: hasTags ? readTags(call).map(name => ({ name, id: name })) : [],
    model: [...new Set(models.flatMap(listSlugs))].map(name => ({ name, id: name })),
  }
  return DIMENSIONS.flatMap(by =>
    names[by].flatMap(({ name, id }) =>
      findBudgets(budgets, by, id).map(budget => buildBound(budget, name, id)),
    ),
  )
}

/** Returns the policy with these bounds besides. */
export const addBounds = <Bounded extends { bounds: Bound[] }>(
  policy: Bounded,
  bounds: Bound[],
): Bounded => ({
  ...policy,
  bounds: [...policy.bounds, ...bounds],
})

/** Lists the limits of budgets for those subaccounts of theirs that are known. */
export const listKnownLimits = (budgets: CallBudget[], known: Subaccount[]): Limit[] =>
  known.flatMap(subaccount => {
    const { by, owner, id } = parseAccount(subaccount)
    const own = budgets.filter(({ account }) => account === owner)
    return findBudgets(own, by, id).map(({ period, limit, byok }) => ({
      ...{ account: subaccount, period, limit, byok },
    }))
  })

/** Leaves those accounts of a call out that are of other models than the one that has answered. */
export const keepModel = (accounts: Subaccount[], model: string | undefined): Subaccount[] =>
  accounts.filter(account => !isOfModels(account) || isOfModel(account, model))

/** Whether calls that this model answers count in an account of a model. */
export const isOfModel = (account: Subaccount, model: string | undefined): boolean =>
  isOfModels(account) &&
  model !== undefined &&
  listSlugs(model).some(slug => account.endsWith(` ${slug}`))

/** What is shown of a budget to whom it bounds. */
interface ShownBudget {
  by: Dimension
  name?: string
  limit_usd: number
  reset_interval: CallBudget['period']
  /** What is left; absent for one that is of several. */
  remaining_usd?: number
}

/**
 * Shows budgets to a key, with what is left of those that name something. Whom they name is not for
 * every key of a workspace: those of one end user are left out. Throws 503.
 */
export async function showCallBudgets(
  ledger: Pick<Ledger, 'openSubaccounts' | 'getRemaining'>,
  all: CallBudget[],
): Promise<ShownBudget[]> {
  const budgets = all.filter(({ by, name }) => by !== 'end_user' || name === null)
  const named = budgets.map(({ by, account, id }) =>
    id === null ? null : buildAccount(by, account, id),
  )
  const close = await ledger.openSubaccounts(named.filter(account => account !== null))
  const shown = budgets.map((budget, i): ShownBudget => {
    const { by, name, limit, period } = budget
    const account = named[i]
    return {
      ...{ by, ...(name === null ? {} : { name }) },
      ...{ limit_usd: toUsd(limit), reset_interval: period },
      ...(account ? { remaining_usd: toUsd(ledger.getRemaining({ ...budget, account })) } : {}),
    }
  })
  close()
  return shown
}

/** What a subaccount is a part of, and what its calls have in common. */
export function parseAccount(account: Account): { by: Dimension; owner: Account; id: string } {
  const [by, kind, owner, ...id] = account.split(' ')
  return { by: by as Dimension, owner: `${kind} ${owner}` as Account, id: id.join(' ') }
}

/** Returns the account that a subaccount is a part of; any other account as it is. */
export const getWholeAccount = (account: Account): Account =>
  DIMENSIONS.some(by => account.startsWith(`${by} `)) ? parseAccount(account).owner : account

/** What a tag has to be, for messages. */
export const EXPECTED_TAG = 'a tag of at most 64 characters without commas'

/** Whether a text can be a tag of a call. */
export const isTag = (text: string): boolean =>
  text.length <= 64 && text.isWellFormed() && /^[^,\p{Cc}]+$/u.test(text) && text.trim() === text

/** The most tags of one call: each has an account of its own. */
const MOST_TAGS = 10

/** Lists the tags of a call, of its header and of its `trace`, each once. Throws 400. */
function readTags({ origin, trace }: CallIdentity): string[] {
  const named: unknown[] = [trace?.tags ?? []].flat()
  const listed = (origin.tags ?? '').split(',').map(tag => tag.trim())
  const tags = [...new Set([...listed, ...named])].filter(tag => tag !== '')
  if (tags.length <= MOST_TAGS && tags.every(isTagText)) return tags
  const field = named.length > 0 ? 'trace.tags' : 'x-gateway-tags'
  throw invalid(`${field}: expected at most ${MOST_TAGS} tags, each ${EXPECTED_TAG}`, field)
}

const isTagText = (tag: unknown): tag is string => typeof tag === 'string' && isTag(tag)

/** Finds the budgets of one name. Those of an account that name it stand for those for each. */
function findBudgets(budgets: CallBudget[], by: Dimension, id: string): CallBudget[] {
  const own = budgets.filter(budget => budget.by === by && budget.id === id)
  const naming = new Set(own.map(({ account }) => account))
  const each = budgets.filter(
    budget => budget.by === by && budget.id === null && !naming.has(budget.account),
  )
  return [...own, ...each]
}

function buildBound(budget: CallBudget, name: string, id: string): CallBound {
  const { by, account, scope, period, limit, byok } = budget
  const whose = `the ${WORDS[by]} “${name}” of ${OWNERS[scope]}`
  return {
    account: buildAccount(by, account, id),
    ...{ period, limit, byok },
    message:
      `Guardrail ${period} budget of ${renderDollars(limit)} for ${whose} exceeded. ` +
      'Contact your org admin.',
  }
}

const buildAccount = (by: Dimension, account: Account, id: string): Subaccount =>
  `${by} ${account} ${id}`

/** Names all parts of an account by one dimension: their accounts begin with it. */
export const nameParts = (by: Dimension, account: Account): string => `${by} ${account}`

const isOfModels = (account: Subaccount): boolean => account.startsWith('model ')

/** Lists the names that calls of a model count under: a budget of it is that of its variants too. */
export const listSlugs = (model: string): string[] => [
  ...new Set([model, model.replace(/:[^:]*$/, '')]),
]
