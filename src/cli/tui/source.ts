import type { explainGeneration } from '../../app/past-request.ts'
import type { listBudgets } from '../../limits/budgets.ts'
import type { Rate } from '../../limits/rates.ts'
import type { getGeneration } from '../../observability/generations.ts'
import type { showKey } from '../../resources/keys.ts'
import type { Feed } from '../feed.ts'
import type { LiveCall } from './live.ts'

/** A finished call, as `gateway generations get --json` shows it. */
export type CallRecord = Awaited<ReturnType<typeof getGeneration>>['data']

/** A key, as `gateway keys list --json` shows it. */
export type KeyRecord = ReturnType<typeof showKey>

/** What one group of calls cost, in USD, in the windows that limits have. */
export interface Spending {
  name: string
  today: number
  week: number
  month: number
}

/** A budget of a workspace, as `gateway budgets list --json` shows it. */
export type Budget = ReturnType<typeof listBudgets>['data'][number]

/** A budget, with what its workspace has spent in its window: null for one that never resets. */
export interface BudgetRow extends Spending {
  limit: number
  spent: number | null
}

/** How often a key may call by one of its guardrails, in the API's words; null for any number. */
export type KeyRate = Omit<Rate, 'account' | 'guardrail'> & { name: string }

/** What calls cost, and what accounts may spend. */
export interface Money {
  credits: { total_credits: number; total_usage: number } | null
  keys: KeyRecord[]
  budgets: BudgetRow[]
  /** Groups by what each is: a model, workspace, member or app. */
  groups: Record<string, Spending[]>
}

/** The nouns that have a list beside the keys, which have a view of their own. */
export const NOUNS = [
  'workspaces',
  'members',
  'budgets',
  'presets',
  'guardrails',
  'byok',
  'destinations',
  'alerts',
  'credits',
  'audit',
] as const
export type Noun = (typeof NOUNS)[number] | 'keys'

/** A change of one thing, in the API's words. */
export interface Change {
  noun: Noun
  /** What its command calls it: create, update, delete, … */
  verb: string
  /** What is changed; empty for what is created. A budget's is its workspace and its interval. */
  id: string
  /** Its workspace, where the id alone does not tell it. */
  workspace_id?: string
  input: object
}

/** What would become of a past call now, as `gateway generations explain --json` shows it. */
export type PastExplanation = Awaited<ReturnType<typeof explainGeneration>>['data']

/** Where the terminal UI reads and what it changes: a data directory, or a gateway elsewhere. */
export interface Source {
  /** What is on the screen: the directory, or the address. */
  name: string
  openFeed(): Promise<Feed>
  /** Lists the calls that finished last, oldest first. */
  listCalls(limit: number): Promise<LiveCall[]>
  getCall(id: string): Promise<CallRecord>
  /** Explains what would become of the request of a finished call now. */
  explainCall(id: string): Promise<PastExplanation>
  readMoney(): Promise<Money>
  /** Reads the rates that hold for a key: its own, its maker's and its workspace's. */
  readRates(key: KeyRecord): Promise<KeyRate[]>
  list(noun: Noun): Promise<object[]>
  /** Makes a change. Returns a text that is shown this once: the plaintext of a new key. */
  change(change: Change): Promise<string | null>
  rest(endpoint: string, seconds: number): Promise<void>
  wake(endpoint: string): Promise<void>
}
