import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { OpenedKeys } from './catalog/byok/opened.ts'
import { reloadByokKeys } from './catalog/byok.ts'
import { type Catalog, openCatalog } from './catalog/models.ts'
import { type DesignatedPreset, openPresets, reloadPresets } from './catalog/presets.ts'
import { type Config, defaultConfig } from './config.ts'
import { type Events, openEvents } from './events.ts'
import { type Key, openKeys, reloadKeys } from './identity/keys.ts'
import { firstMember } from './identity/members.ts'
import { firstWorkspace, type Owner, openWorkspaces, reloadWorkspaces, type Workspace } from './identity/workspaces.ts'
import { type Calls, openCalls } from './inference/calls.ts'
import { Health } from './inference/health.ts'
import { Retries } from './inference/retries.ts'
import { Sessions } from './inference/sessions.ts'
import { openTokenizers, type Tokenizers } from './inference/tokenizers.ts'
import { type Clock, nextTurn, systemClock } from './kernel/clock.ts'
import { type Fingerprint, openFingerprint } from './kernel/fingerprint.ts'
import { type Ids, randomIds } from './kernel/ids.ts'
import { midnight } from './kernel/periods'
import { openSeal, type Seal } from './kernel/seal.ts'
import { shareRuns } from './kernel/share-runs.ts'
import type { LedgerHead } from './ledger/chain.ts'
import { reloadCredits } from './ledger/credits.ts'
import { type HoldJournal, type Ledger, openLedger } from './ledger/ledger.ts'
import { type Assignment, openAssignments, reloadAssignments } from './policy/assignments.ts'
import { type Budget, openBudgets, reloadBudgets } from './policy/budgets.ts'
import type { Policy } from './policy/effective.ts'
import { type Guardrail, openGuardrails, reloadGuardrails } from './policy/guardrails.ts'
import { countsFreeDays, openRateLimits, type RateLimits } from './policy/rate-limits.ts'
import { protocolNames } from './protocols/registry.ts'
import type { ConfigStatus } from './reconfigure.ts'
import { openHoldJournal } from './store/hold-journal.ts'
import { readHead, writeHead } from './store/ledger-head.ts'
import { dataSecret } from './store/secret.ts'
import { openSqlite } from './store/sqlite.ts'
import type { Store } from './store/store.ts'
import { openRecorder, type Recorder } from './telemetry/recorder.ts'
import { type AccessTokens, openAccessTokens } from './upstream/authorize/google-service-account.ts'
import { type Egress, openEgress, type Resolve, resolveHost } from './upstream/egress.ts'

/** The gateway itself: everything a core function may reach for, in one place, so that a test may replace any of it. */
export interface Gateway {
  config: Config
  /** How it stands with the config. */
  configStatus: ConfigStatus
  /** Where users find this gateway: what the config says, or where it listens. */
  siteUrl: string
  catalog: Catalog
  /** Remembers. */
  store: Store
  /** Every key by its hash, in memory. */
  keys: Map<string, Key>
  /** Callers' own provider keys, opened, in memory. */
  byok: OpenedKeys
  /** What they are sealed with. Throws where the secret cannot be read. */
  seal: () => Seal
  /** Stands for a secret where that may not. */
  fingerprint: Fingerprint
  /** Every workspace by its id, in memory. */
  workspaces: Map<string, Workspace>
  /** The budgets of the workspaces that have any, by the workspace's id, the broadest first, in memory. */
  budgets: Map<string, Budget[]>
  /** Every preset as it is used, by its workspace and slug, in memory. */
  presets: Map<string, DesignatedPreset>
  /** Every guardrail by its id, in memory. */
  guardrails: Map<string, Guardrail>
  /** Who has which of them, by the account, in memory. */
  assignments: Map<string, Assignment>
  owner: Owner
  /** What the keys' calls are held to, as far as it was asked for since anything changed. */
  policies: Map<string, Policy>
  /** How often they may be made. */
  rateLimits: RateLimits
  ledger: Ledger
  /** Word of the calls that run, beside the store. */
  holds: HoldJournal
  /** Where the ledger ended when it was last written down, beside the store. */
  head: { read(): LedgerHead | null; write(head: LedgerHead): void }
  /** What was paid in, in nano-dollars. */
  credits: bigint
  recorder: Recorder
  /** The calls that run. */
  calls: Calls
  /** How many of them may be tried again at once. */
  retries: Retries
  /** How the endpoints are that they go to. */
  health: Health
  /** Where the conversations are that they belong to. */
  sessions: Sessions
  /** Counts what providers did not count. */
  tokenizers: Tokenizers
  /** Tells. */
  events: Events
  /** Asks the world: the only way out. */
  egress: Egress
  /** Asks where a host is. */
  resolve: Resolve
  /** What Google service accounts have bought. */
  accessTokens: AccessTokens
  clock: Clock
  ids: Ids
  /** A number from 0 up to 1, without it. */
  random: () => number
  /**
   * Takes over what another process has changed by now, of all that is in memory, and says whether
   * there was anything. Those who call at once share the work.
   */
  catchUp(): Promise<boolean>
  /** Writes what waits and closes the store. */
  close(): Promise<void>
}

/** What a gateway is made of, where it shall not be the usual. */
export interface Parts {
  config: Config
  /** The data directory; without one everything is kept in memory and forgotten. */
  data: string
  /** What remembers, in the place of SQLite. The gateway closes it. */
  store: Store
  /** What provider keys are sealed with; without one, a secret that the data directory keeps for itself. */
  secret: string
  /** Milliseconds that a statement may wait for another process: 0 where clients are waiting. */
  patience: number
  clock: Clock
  ids: Ids
  random: () => number
  egress: Egress
  resolve: Resolve
  tokenizers: Tokenizers
}

/** The only place where parts are put together. Throws `invalid_request` for a config that does not fit. */
export async function openGateway(replace: Partial<Parts> = {}): Promise<Gateway> {
  const { config = defaultConfig(), data, patience = 2_000, clock = systemClock, ids = randomIds, tokenizers = openTokenizers() } = replace
  const catalog = openCatalog(config, protocolNames, clock.now())
  const store = replace.store ?? (await openStore(data, config.storage.durability, patience))
  const events = openEvents()
  const recorder = openRecorder(store.generations, events, clock.ticks)
  const owner = await openOwner(store, ids, clock)
  const egress = replace.egress ?? openEgress(() => gateway.config)
  const secret = once(() => secretOf(data, replace.secret))
  const seal = once(() => openSeal(secret(), 'byok'))
  const fingerprint = once(() => fingerprintWith(secret))
  const calls = openCalls()
  let version = await store.version()
  const gateway: Gateway = {
    config,
    configStatus: { applied: clock.now(), rejected: false },
    siteUrl: config.server.site_url ?? `http://${config.server.host}:${config.server.port}`,
    catalog,
    store,
    keys: await openKeys(store.keys),
    byok: new OpenedKeys(),
    seal,
    fingerprint: text => fingerprint()(text),
    workspaces: await openWorkspaces(store.workspaces),
    budgets: await openBudgets(store.budgets),
    presets: await openPresets(store.presets),
    guardrails: await openGuardrails(store.guardrails),
    assignments: await openAssignments(store.assignments),
    owner,
    policies: new Map(),
    rateLimits: openRateLimits(config, clock, await freeToday(store, config, clock)),
    ledger: await openLedger(store.ledger, clock),
    holds: data === undefined ? noHolds() : openHoldJournal(data),
    head: data === undefined ? NO_HEAD : { read: () => readHead(data), write: head => writeHead(data, head) },
    credits: await store.credits.total(),
    recorder,
    calls,
    retries: new Retries(calls),
    health: new Health(config.routing, clock),
    sessions: new Sessions(clock),
    tokenizers,
    events,
    egress,
    resolve: replace.resolve ?? resolveHost,
    accessTokens: openAccessTokens(egress, clock),
    clock,
    ids,
    random: replace.random ?? Math.random,
    catchUp: shareRuns(async () => {
      const now = await store.version()
      if (now === version) return false
      await reloadKeys(gateway)
      await reloadByokKeys(gateway)
      await reloadWorkspaces(gateway)
      await reloadBudgets(gateway)
      await reloadPresets(gateway)
      await reloadCredits(gateway)
      // In this order, so that nobody is assigned what is not there yet.
      await reloadAssignments(gateway)
      await reloadGuardrails(gateway)
      gateway.policies.clear()
      version = now
      return true
    }),
    async close() {
      tokenizers.close()
      // The calls that waited for a count are settled now, and recorded with the rest.
      await nextTurn()
      await recorder.flush()
      await store.close()
    },
  }
  await reloadByokKeys(gateway)
  return gateway
}

function openStore(data: string | undefined, durability: Config['storage']['durability'], patience: number): Promise<Store> {
  if (data === undefined) return openSqlite({ path: ':memory:', durability, patience })
  mkdirSync(data, { recursive: true, mode: 0o700 })
  return openSqlite({ path: join(data, 'gateway.db'), durability, patience })
}

/** What is kept in memory ends with it. */
const noHolds = (): HoldJournal => ({
  open: () => FORGOTTEN,
  progress: () => undefined,
  left: () => [],
  clear: () => undefined,
})
const FORGOTTEN = { written: Promise.resolve(), forget: () => undefined }
const NO_HEAD = { read: () => null, write: () => undefined }

// Only where they are limited: then a restart gives nobody another day's worth.
const freeToday = ({ generations }: Store, { limits }: Config, clock: Clock): Promise<number> | number =>
  countsFreeDays(limits) ? generations.freeSince(midnight(clock.now())) : 0

// What most runs never need is made on its first need, and so is the secret's file.
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

// Whoever takes a key out of use must not be stopped by a secret that is gone.
function fingerprintWith(secret: () => Uint8Array): Fingerprint {
  try {
    return openFingerprint(secret())
  } catch {
    return () => 'unknown'
  }
}

function secretOf(data: string | undefined, given: string | undefined): Uint8Array {
  if (given !== undefined) return Buffer.from(given)
  return data === undefined ? crypto.getRandomValues(new Uint8Array(32)) : dataSecret(data)
}

async function openOwner(store: Store, ids: Ids, clock: Clock): Promise<Owner> {
  const owner = await store.owner({ user_id: `user_${ids.uuid().replaceAll('-', '')}`, workspace_id: ids.uuid() })
  await store.workspaces.first(firstWorkspace(owner.workspace_id, owner.user_id, clock.now()))
  await store.members.first(firstMember(owner, clock.now()))
  return owner
}
