import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { OpenedKeys } from './catalog/byok/opened.ts'
import { readByokKeys } from './catalog/byok.ts'
import { type Catalog, openCatalog } from './catalog/models.ts'
import type { DesignatedPreset } from './catalog/presets/store.ts'
import { presetName } from './catalog/presets.ts'
import { type Config, defaultConfig } from './config.ts'
import { type Events, openEvents } from './events.ts'
import type { Key } from './identity/keys/store.ts'
import { firstMember } from './identity/members.ts'
import type { Owner, Workspace } from './identity/workspaces/store.ts'
import { firstWorkspace } from './identity/workspaces.ts'
import { Health } from './inference/health.ts'
import type { Plugin } from './inference/plugin.ts'
import { STAGES, type Stages } from './inference/stages.ts'
import { openCalls, Retries, Sessions, type Traffic } from './inference/traffic.ts'
import type { Journal } from './inference/world.ts'
import { type Clock, midnight, nextTurn, systemClock } from './kernel/clock.ts'
import { type Fingerprint, openFingerprint } from './kernel/fingerprint.ts'
import { type Ids, randomIds } from './kernel/ids.ts'
import { Mirror } from './kernel/mirror.ts'
import { openSeal, type Seal } from './kernel/seal.ts'
import { shareRuns } from './kernel/share-runs.ts'
import type { HeadFile } from './ledger/chain.ts'
import { reloadCredits } from './ledger/credits.ts'
import { type HoldJournal, type Ledger, openLedger } from './ledger/ledger.ts'
import { PLUGINS } from './plugins/registry.ts'
import type { Assignment } from './policy/assignments/store.ts'
import { accountOf } from './policy/assignments.ts'
import type { Budget } from './policy/budgets/store.ts'
import { budgetName } from './policy/budgets.ts'
import type { Policy } from './policy/effective.ts'
import type { Guardrail } from './policy/guardrails/store.ts'
import { countsFreeDays, openRateLimits } from './policy/rate-limits.ts'
import { protocolNames } from './protocols/registry.ts'
import type { ConfigStatus } from './reconfigure.ts'
import { openHoldJournal } from './store/hold-journal.ts'
import { readHead, writeHead } from './store/ledger-head.ts'
import { dataSecret } from './store/secret.ts'
import { openSqlite } from './store/sqlite.ts'
import type { Store } from './store/store.ts'
import { openRecorder, type Recorder } from './telemetry/recorder.ts'
import { openTokenizers, type Tokenizers } from './tokenizers.ts'
import { openAccessTokens } from './upstream/authorize/google-service-account.ts'
import { openEgress, type Resolve, resolveHost, type Send } from './upstream/egress.ts'
import type { Egress } from './upstream/world.ts'

/** The gateway itself: the parts of one process, put together. A core function takes what it reaches for and no more: see each wing's world. */
export interface Gateway {
  config: Config
  instance: Instance
  catalog: Catalog
  /** Remembers. */
  store: Store
  memory: Memory
  traffic: Traffic
  ledger: Ledger
  journal: Journal
  recorder: Recorder
  /** Counts what providers did not count. */
  tokenizers: Tokenizers
  /** The life of a call. */
  stages: Stages
  /** What calls may ask for besides an answer. */
  plugins: Plugin[]
  egress: Egress
  secrets: Secrets
  /** Tells. */
  events: Events
  clock: Clock
  ids: Ids
  /**
   * Takes over what another process has changed by now, of all that is in memory, and says whether
   * there was anything. Those who call at once share the work.
   */
  catchUp(): Promise<boolean>
  /** Writes what waits and closes the store. */
  close(): Promise<void>
}

/** This process as its users know it. */
export interface Instance {
  /** How it stands with the config. */
  configStatus: ConfigStatus
  /** Where users find this gateway: what the config says, or where it listens. */
  siteUrl: string
}

/** What the store remembers and calls need, by its names there: no request reads a database. */
export interface Memory {
  owner: Owner
  /** By their hash. */
  keys: Mirror<Key>
  /** By their id. */
  workspaces: Mirror<Workspace>
  /** Callers' own provider keys, opened. */
  byok: OpenedKeys
  /** As they are used, by their workspace and slug. */
  presets: Mirror<DesignatedPreset>
  /** By their workspace and interval. */
  budgets: Mirror<Budget>
  /** By their id. */
  guardrails: Mirror<Guardrail>
  /** Who has which guardrail, by the account. */
  assignments: Mirror<Assignment>
  /** What was paid in, in nano-dollars. */
  credits: bigint
  /** What the keys' calls are held to, as far as it was asked for since anything changed that it is made of. */
  policies: Map<string, Policy>
  /** Forgets all that was in a workspace, and the workspace. */
  forgetWorkspace(id: string): void
}

/** What protects secrets. */
export interface Secrets {
  /** What provider keys are sealed with. Throws where the secret cannot be read. */
  seal: () => Seal
  /** Stands for a secret where that may not. */
  fingerprint: Fingerprint
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
  ids: Omit<Ids, 'random'>
  random: () => number
  egress: Send
  resolve: Resolve
  tokenizers: Tokenizers
  stages: Stages
  plugins: Plugin[]
}

/** The only place where parts are put together. Throws `invalid_request` for a config that does not fit. */
export async function openGateway(replace: Partial<Parts> = {}): Promise<Gateway> {
  const {
    config = defaultConfig(),
    data,
    patience = 2_000,
    clock = systemClock,
    tokenizers = openTokenizers(),
  } = replace
  const ids = {
    ...randomIds,
    ...replace.ids,
    ...(replace.random ? { random: replace.random } : {}),
  }
  const catalog = openCatalog(config, protocolNames, clock.now())
  const store = replace.store ?? (await openStore(data, config.storage.durability, patience))
  const events = openEvents()
  const recorder = openRecorder(store.generations, events, clock.ticks)
  const owner = await openOwner(store, ids, clock)
  // Before anything is read: what another process writes meanwhile is taken over later.
  let version = await store.version()
  const byok = new OpenedKeys(
    () => readByokKeys(gateway),
    key => events.publish('byok.unreadable', key),
  )
  const memory = await openMemory(store, owner, byok)
  const send = replace.egress ?? openEgress(() => gateway.config)
  const gateway: Gateway = {
    config,
    instance: {
      configStatus: { applied: clock.now(), rejected: false },
      siteUrl: config.server.site_url ?? `http://${config.server.host}:${config.server.port}`,
    },
    catalog,
    store,
    memory,
    traffic: openTraffic(config, clock, await freeToday(store, config, clock)),
    ledger: await openLedger(store.ledger, clock),
    journal: openJournal(data),
    recorder,
    tokenizers,
    stages: replace.stages ?? STAGES,
    plugins: replace.plugins ?? PLUGINS,
    egress: {
      send,
      resolve: replace.resolve ?? resolveHost,
      accessTokens: openAccessTokens(send, clock),
    },
    secrets: openSecrets(data, replace.secret),
    events,
    clock,
    ids,
    catchUp: shareRuns(async () => {
      const now = await store.version()
      if (now === version) return false
      await reload(gateway)
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
  await byok.reload()
  return gateway
}

/** All that is in memory, as it is in the store. What an actor is held to is forgotten whenever anything changes that it is made of. */
async function openMemory(store: Store, owner: Owner, byok: OpenedKeys): Promise<Memory> {
  const policies = new Map<string, Policy>()
  const onChange = () => policies.clear()
  const byId = ({ id }: { id: string }) => id
  const memory: Memory = {
    owner,
    policies,
    keys: await Mirror.open({ read: () => store.keys.all(), nameOf: ({ hash }) => hash, onChange }),
    byok,
    workspaces: await Mirror.open({ read: () => store.workspaces.all(), nameOf: byId, onChange }),
    budgets: await Mirror.open({ read: () => store.budgets.all(), nameOf: budgetName, onChange }),
    presets: await Mirror.open({ read: () => store.presets.all(), nameOf: presetName }),
    assignments: await Mirror.open({
      read: () => store.assignments.all(),
      nameOf: accountOf,
      onChange,
    }),
    guardrails: await Mirror.open({ read: () => store.guardrails.all(), nameOf: byId, onChange }),
    credits: await store.credits.total(),
    forgetWorkspace: id => forgetWorkspace(memory, id),
  }
  return memory
}

function forgetWorkspace(
  { workspaces, budgets, presets, guardrails, assignments, byok }: Memory,
  id: string,
): void {
  const isInIt = ({ workspace_id }: { workspace_id: string }) => workspace_id === id
  workspaces.delete(id)
  budgets.deleteWhere(isInIt)
  presets.deleteWhere(isInIt)
  for (const guardrail of guardrails.deleteWhere(isInIt))
    assignments.deleteWhere(({ guardrail_id }) => guardrail_id === guardrail.id)
  byok.deleteWhere(({ key }) => isInIt(key))
}

async function reload(gateway: Gateway): Promise<void> {
  const { memory } = gateway
  await reloadCredits(gateway)
  // In the order of the memory: nobody is assigned what is not there yet.
  for (const part of Object.values(memory)) if (part instanceof Mirror) await part.reload()
  memory.policies.clear()
}

function openTraffic(config: Config, clock: Clock, freeSoFar: number): Traffic {
  const calls = openCalls()
  return {
    calls,
    retries: new Retries(calls),
    health: new Health(config.routing, clock),
    sessions: new Sessions(clock),
    rateLimits: openRateLimits(config, clock, freeSoFar),
  }
}

function openJournal(data: string | undefined): Journal {
  if (data === undefined) return { holds: noHolds(), head: NO_HEAD }
  return {
    holds: openHoldJournal(data),
    head: { read: () => readHead(data), write: head => writeHead(data, head) },
  }
}

function openSecrets(data: string | undefined, given: string | undefined): Secrets {
  const secret = once(() => secretOf(data, given))
  const fingerprint = once(() => fingerprintWith(secret))
  return { seal: once(() => openSeal(secret(), 'byok')), fingerprint: text => fingerprint()(text) }
}

function openStore(
  data: string | undefined,
  durability: Config['storage']['durability'],
  patience: number,
): Promise<Store> {
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
const NO_HEAD: HeadFile = { read: () => null, write: () => undefined }

// Only where they are limited: then a restart gives nobody another day's worth.
const freeToday = (
  { generations }: Store,
  { limits }: Config,
  clock: Clock,
): Promise<number> | number =>
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
  const owner = await store.owner({
    user_id: `user_${ids.uuid().replaceAll('-', '')}`,
    workspace_id: ids.uuid(),
  })
  await store.workspaces.first(firstWorkspace(owner.workspace_id, owner.user_id, clock.now()))
  await store.members.first(firstMember(owner, clock.now()))
  return owner
}
