import { hkdfSync } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, systemClock, toMidnight, yieldToEventLoop } from '../base/clock.ts'
import { conflict } from '../base/errors.ts'
import { type Events, openEvents } from '../base/events.ts'
import { type Fingerprint, openFingerprint } from '../base/fingerprint.ts'
import { createRandomIds, type Ids } from '../base/ids.ts'
import { type Mac, openMac, openMacLate } from '../base/mac.ts'
import { isLoopback } from '../base/machine.ts'
import { Mirror, type MirrorPart, PackedMirror } from '../base/mirror.ts'
import { openSeal, type Seal } from '../base/seal.ts'
import { shareRuns } from '../base/share-runs.ts'
import type { PostgresConfig } from '../config/storage.ts'
import { type Config, createDefaultConfig, getSiteUrl } from '../config.ts'
import { endLoopsOfGoneKeys } from '../engine/admit.ts'
import { Health } from '../engine/health.ts'
import { markEnds, markOpening, rewriteEnds } from '../engine/recover.ts'
import type { Extension } from '../engine/run.ts'
import { STAGES, type Stages } from '../engine/stages.ts'
import { Admission } from '../engine/traffic/admission.ts'
import { Approvals } from '../engine/traffic/approvals.ts'
import { LargeAnswers } from '../engine/traffic/large-answers.ts'
import { ReadDocuments } from '../engine/traffic/read-documents.ts'
import { ReadOns } from '../engine/traffic/read-ons.ts'
import { ResponseCache } from '../engine/traffic/response-cache.ts'
import { createRunningCalls, RetryBudget, Sessions, type Traffic } from '../engine/traffic.ts'
import type { Journal } from '../engine/world.ts'
import { Activity } from '../extensions/activity.ts'
import { type Documents, openDocuments } from '../extensions/documents.ts'
import { type Healer, openHealer } from '../extensions/healing.ts'
import type { Plugin } from '../extensions/plugin.ts'
import { listPluginIssues } from '../extensions/plugin-defaults.ts'
import { PLUGINS } from '../extensions/plugins/registry.ts'
import { EXTENSIONS } from '../extensions/registry.ts'
import type { ServerTool } from '../extensions/server-tool.ts'
import { TOOLS } from '../extensions/tools/registry.ts'
import { createVideoJobs, type PollPace } from '../extensions/videos/poller.ts'
import type { VideoJobs } from '../extensions/world.ts'
import { ASSIGNMENT_PACKING, groupAssignees } from '../limits/assignments/packing.ts'
import type { Assignment } from '../limits/assignments/store.ts'
import type { Budget } from '../limits/budgets/store.ts'
import { buildBudgetName } from '../limits/budgets.ts'
import type { HeadFile } from '../limits/chain.ts'
import { hasDailyFreeLimit, openCounters } from '../limits/counters.ts'
import { reloadCredits } from '../limits/credits.ts'
import type { Guardrail } from '../limits/guardrails/store.ts'
import { type HoldJournal, type Ledger, openLedger } from '../limits/ledger.ts'
import type { Policy } from '../limits/policy-world.ts'
import type { RecordSecrets } from '../limits/seals.ts'
import { openAccessTokens } from '../network/authorize/google-service-account.ts'
import { type BucketWorld, openBucket } from '../network/bucket.ts'
import type { ContainerNetwork } from '../network/containers/network.ts'
import { WarmContainers } from '../network/containers/warm.ts'
import { openEgress, type Resolve, resolveHost, type Send } from '../network/egress.ts'
import { openIssuerKeys } from '../network/issuer-keys.ts'
import { SANDBOXES } from '../network/sandboxes/registry.ts'
import type { Sandbox } from '../network/sandboxes/sandbox.ts'
import type { Egress, UpstreamWorld } from '../network/world.ts'
import type { Alert } from '../observability/alerts/store.ts'
import type { Renderer } from '../observability/destinations/deliveries/renderer.ts'
import type { DeliveryPace } from '../observability/destinations/deliveries/retry.ts'
import { createDeliveries, type Deliveries } from '../observability/destinations/deliveries.ts'
import type { DestinationKind } from '../observability/destinations/kind.ts'
import { OpenedDestinations } from '../observability/destinations/opened.ts'
import { KINDS } from '../observability/destinations/registry.ts'
import { readDestinations } from '../observability/destinations.ts'
import { openRecorder, type Recorder } from '../observability/recorder.ts'
import { openRefusalLog, type RefusalLog } from '../observability/refusals.ts'
import { openRollupKeeper, type RollupKeeper } from '../observability/rollups.ts'
import { openWriteLog, type WriteLog } from '../observability/write-log.ts'
import { DecryptedKeys } from '../resources/byok/decrypted-keys.ts'
import { readByokKeys } from '../resources/byok.ts'
import type { BlobStore } from '../resources/files/blobs.ts'
import { KeptCalls } from '../resources/idempotency/calls.ts'
import { KeyMirror } from '../resources/keys/mirror.ts'
import { buildOwnerMember } from '../resources/members.ts'
import { createBuiltInReader, locateCatalog } from '../resources/models/built-in.ts'
import type { Catalog } from '../resources/models/catalog.ts'
import { openCatalog } from '../resources/models.ts'
import type { DesignatedPreset } from '../resources/presets/store.ts'
import { buildPresetName } from '../resources/presets.ts'
import { EventLogs } from '../resources/responses/event-log.ts'
import type { ProviderLogout } from '../resources/sign-ins.ts'
import type { Workloads } from '../resources/workloads/parts.ts'
import { AccessTokens } from '../resources/workloads/tokens.ts'
import { UsedTokens } from '../resources/workloads/used-tokens.ts'
import type { Owner, Workspace } from '../resources/workspaces/store.ts'
import { buildDefaultWorkspace } from '../resources/workspaces.ts'
import { openDiskBlobs } from '../store/blobs/disk.ts'
import { createMemoryBlobs } from '../store/blobs/memory.ts'
import { openS3Blobs } from '../store/blobs/s3.ts'
import { openDamagedLogs } from '../store/checked-lines.ts'
import {
  makeDataDirectory,
  nameNode,
  openDataDirectory,
  readNodeId,
} from '../store/data-directory.ts'
import { openFreeCalls } from '../store/free-calls.ts'
import { openHoldJournal } from '../store/hold-journal.ts'
import { openHeadFile } from '../store/ledger-head.ts'
import { LOG, Log, type LogMacs, type LogOptions, openLogMacs } from '../store/log.ts'
import { guardMigration, type Migration, refuseMigration } from '../store/migration-guard.ts'
import { type GivenSecret, refuseShortSecret } from '../store/own-secret.ts'
import type { Jobs } from '../store/postgres/jobs.ts'
import type { Claim, ClaimEvents } from '../store/postgres/nodes.ts'
import { takeRecordLog } from '../store/record-log.ts'
import { hasDataSecret, loadDataSecret, readPreviousSecret } from '../store/secret.ts'
import { openSpool } from '../store/spool.ts'
import type { Change } from '../store/sql/changes.ts'
import { lockData } from '../store/sqlite/lock.ts'
import { openSqlite, type SqliteOptions } from '../store/sqlite.ts'
import type { Store } from '../store/store.ts'
import type { Pools } from '../store/valkey/pools.ts'
import type { ValkeyState } from '../store/valkey.ts'
import { protocolNames } from '../translation/protocols/registry.ts'
import { openTokenizers, type Tokenizers } from '../translation/tokenizers.ts'
import type { ConfigStatus } from './reconfigure.ts'

declare module '../base/events.ts' {
  interface EventMap {
    /** Another server has this one's database. */
    'node.lost': object
    /** This server shall finish what runs, and end; each second until it has. */
    'node.drained': { reason: string }
  }
}

/**
 * The gateway: all parts of one process. A core function takes only the parts that it uses; each
 * room declares them in its world.
 */
export interface Gateway {
  config: Config
  instance: Instance
  catalog: Catalog
  /** Persistent storage. */
  store: Store
  /** The bytes of files. */
  blobs: BlobStore
  /** Every way to run commands. */
  sandboxes: Sandbox[]
  /** The way out for commands of containers that may have one. */
  network: ContainerNetwork
  /** The containers that run in this process. */
  warm: WarmContainers
  memory: Memory
  traffic: Traffic
  /** Follows the jobs of videos, once a server starts it. */
  videos: VideoJobs
  ledger: Ledger
  journal: Journal
  recorder: Recorder
  writeLog: WriteLog
  /** Notes calls that are refused before any provider is asked. */
  refusals: RefusalLog
  /** Keeps the roll-ups near the records. */
  rollups: RollupKeeper
  /** Reads documents that calls contain. */
  documents: Documents
  /** Mends answers that should be JSON. */
  healer: Healer
  /** Counts tokens when a provider does not report them. */
  tokenizers: Tokenizers
  /** The stages of a call. */
  stages: Stages
  /** What some calls have beside what all have. */
  extensions: readonly Extension[]
  /** Plugins that calls may request. */
  plugins: Plugin[]
  /** Tools that the gateway runs itself. */
  tools: ServerTool[]
  /** Where calls may be told. */
  destinationKinds: DestinationKind[]
  /** Sends to destinations what was recorded for them, once a server starts it. */
  deliveries: Deliveries
  /** What several servers have in Valkey, where it is used; null where not. */
  hot: Hot | null
  /** The background work of several servers, which one of them has; null where there is one. */
  jobs: Jobs | null
  egress: Egress
  secrets: Secrets
  /** Short-lived tokens of workloads. */
  workloads: Workloads
  /** What providers of sign-in have said is over, the newest last. */
  logouts: ProviderLogout[]
  /** Publishes what happens. */
  events: Events
  /** Tells listeners what happens, as it happens. */
  activity: Activity
  clock: Clock
  ids: Ids
  /**
   * Reloads everything in memory that another process has changed. Returns whether there was a
   * change. Simultaneous callers share the work.
   */
  catchUp(): Promise<boolean>
  /** Reloads everything in memory, whichever process has changed it. Simultaneous callers share the work. */
  refresh(): Promise<boolean>
  /**
   * Locks the data directory and its database against servers. Resolves with the function that
   * unlocks them. Throws 409 while a server runs.
   */
  lock(): Promise<() => Promise<void>>
  /** Writes pending records and closes the store. */
  close(): Promise<void>
}

/** What a server has in Valkey beside its own memory. */
export interface Hot {
  readonly state: ValkeyState
  /** How often Valkey was asked. */
  readonly asked: number
  /** Of limits by minutes. */
  pools: Pools
  /** Returns the life of a call that looks for its session there. */
  followSessions(stages: Stages): Stages
  /** Has this server share its sessions and answers from now on. */
  attach(gateway: Gateway): void
  close(): Promise<void>
}

/** What users see of this process. */
export interface Instance {
  /** Which config is in effect, and since when. */
  configStatus: ConfigStatus
  /** The URL where users find this gateway: the configured one, or the address it listens on. */
  siteUrl: string
  /** Whether it can be reached from this machine alone, as far as its address says. */
  isLocal: boolean
  /** Whether others serve on its port: the next request of a client may reach one of them. */
  isOneOfSeveral: boolean
}

/** In-memory copies of what calls need from the store, so that no request reads a database. */
export interface Memory {
  owner: Owner
  /** By hash. */
  keys: KeyMirror
  /** By id. */
  workspaces: Mirror<Workspace>
  /** Callers' own provider keys, decrypted. */
  byok: DecryptedKeys
  /** The designated versions, by workspace and slug. */
  presets: Mirror<DesignatedPreset>
  /** By workspace and interval. */
  budgets: Mirror<Budget>
  /** By id. */
  guardrails: Mirror<Guardrail>
  /** The assigned guardrails, by account. */
  assignments: PackedMirror<Assignment>
  /** Where calls are told, with decrypted configs. */
  destinations: OpenedDestinations
  /** What workspaces want to be told of, by id. */
  alerts: Mirror<Alert>
  /** The total of credits paid in, in nano-dollars. */
  credits: bigint
  /** The policies of keys, computed on demand and cleared when anything they depend on changes. */
  policies: Map<string, Policy>
  /** Told when the policies are cleared. */
  policyWatchers: Set<() => void>
  /** Forgets a workspace and everything in it. */
  forgetWorkspace(id: string): void
}

/** Protects secrets. */
export interface Secrets {
  /** Returns the seal of provider keys. Throws when the secret cannot be read. */
  seal: () => Seal
  /** Returns the seal of credentials in presets. Throws when the secret cannot be read. */
  presetSeal: () => Seal
  /** Returns the seal of what was asked and answered. Throws when the secret cannot be read. */
  contentSeal: () => Seal
  /** Returns the seal of what destinations are configured with and told. */
  destinationSeal: () => Seal
  /** Derives bytes that depend on the secret and on nothing else but their purpose. */
  derive: (purpose: string, size: number) => Uint8Array
  /** Computes a value that stands for a secret where the secret must not appear. */
  fingerprint: Fingerprint
  /** Seals records of money and of rules. */
  mac: Mac
  /** Returns the keys of the secret before this one; null if the operator keeps none. */
  previous(): RecordSecrets | null
}

/** The parts of a gateway that replace the defaults. */
export interface GatewayParts {
  config: Config
  /** The data directory. Without one, everything is kept in memory only. */
  data: string
  /** Where the secret and the installed models are, if that is not the data directory. */
  home: string
  /** Tells several servers of a machine apart. */
  worker: number
  /** How its log is written. */
  log: LogOptions
  /**
   * How the data directory is used: beside a server that may run, by the server that has locked it,
   * or as a copy that no other process knows and that is migrated without a backup.
   */
  access: 'command' | 'server' | 'copy'
  /** Is told when the store was migrated to this program’s schema. */
  onMigration: (migration: Migration) => void
  /** Milliseconds that a command waits for another one that migrates the data directory. */
  patience: number
  /** The store that replaces SQLite. The gateway closes it. */
  store: Store
  /** The store of files’ bytes that replaces the disk. The gateway closes it. */
  blobs: BlobStore
  /** The secret that seals provider keys. Without one, the data directory keeps its own. */
  secret: string
  /** Whether the secret has to be that of the data; `doctor` takes any to seal again. */
  requiresOwnSecret: boolean
  /** Whether data of an earlier program is migrated (true). */
  migrates: boolean
  /** The secret before that one, while records are sealed again. */
  previousSecret: string
  /** Milliseconds that a statement may wait for another process: 0 when clients are waiting. */
  busyTimeout: number
  clock: Clock
  ids: Omit<Ids, 'random'>
  random: () => number
  egress: Send
  resolve: Resolve
  documents: Documents
  healer: Healer
  tokenizers: Tokenizers
  stages: Stages
  plugins: Plugin[]
  tools: ServerTool[]
  destinationKinds: DestinationKind[]
  deliveryPace: Partial<DeliveryPace>
  openRenderer: () => Renderer
  pollPace: Partial<PollPace>
  sandboxes: Sandbox[]
}

/**
 * Opens a gateway: the only place where parts are put together. Throws `invalid_request` for an
 * invalid config.
 */
export async function openGateway(overrides: Partial<GatewayParts> = {}): Promise<Gateway> {
  const {
    config = createDefaultConfig(),
    data,
    home = data,
    busyTimeout = 2_000,
    clock = systemClock,
    documents = openDocuments(),
    healer = openHealer(),
    tokenizers = openTokenizers(),
  } = overrides
  const ids = {
    ...createRandomIds(),
    ...overrides.ids,
    ...(overrides.random ? { random: overrides.random } : {}),
  }
  const catalog = openCatalog(config, protocolNames, clock.now(), {
    issues: listPluginIssues(config, overrides.plugins ?? PLUGINS),
    getBuiltIn: createBuiltInReader(home === undefined ? null : locateCatalog(home, config)),
  })
  const secrets = openSecrets(home, overrides)
  const events = openEvents()
  const macs = openLogMacs(secrets)
  const log =
    data === undefined ? null : new Log(data, macs, LOG, { ticks: clock.ticks, ...overrides.log })
  let garbledRecords = 0
  const store =
    overrides.store ??
    (await openStore(
      data,
      overrides.access,
      log,
      {
        durability: config.storage.durability === 'full' ? 'full' : 'normal',
        busyTimeout,
        secrets,
        macs,
        ticks: clock.ticks,
        onFault: error => events.publish('store.failing', { error }),
        onUntold: (id, error) => events.publish('broadcast.failed', { id, error }),
        onGarbled(lines) {
          garbledRecords = lines
        },
        ownSecret: overrides.requiresOwnSecret ? describeSecret(home, overrides.secret) : undefined,
        ...guardStore(data, secrets.destinationSeal, overrides),
      },
      config.storage.postgres,
    ))
  const isNewNode = store.nodes !== undefined && data !== undefined && readNodeId(data) === null
  const journal = openJournal(data, log, secrets.mac, garbledRecords)
  if (isNewNode && overrides.access !== 'server') journal.head = NO_HEAD
  // What others have written before it came, it cannot vouch for.
  await (isNewNode ? rewriteEnds : markOpening)({ store, journal })
  const claim = await claimStore(
    store,
    {
      ...{ data, access: overrides.access, worker: overrides.worker },
      isAlone: !config.storage.s3 && !overrides.blobs,
    },
    clock,
    {
      onLost: () => events.publish('node.lost', {}),
      onDrain: reason => events.publish('node.drained', { reason }),
    },
  )
  // Absent where one node is all there is.
  const hot = claim && (await openHot(config, { store, secrets, events }))
  const counts = claim && (await store.openCounts?.(claim.incarnation, clock.ticks, hot?.pools))
  const keepsUp = () => journal.holds.keepsUp && !claim?.isCutOff
  const recorder = openRecorder(store.generations, events, clock.ticks, keepsUp)
  const owner = await ensureOwner(store, ids, clock)
  // Read before everything else: what another process writes meanwhile is picked up later.
  let version = await store.version()
  const byok = new DecryptedKeys(
    ids => readByokKeys(gateway, ids),
    key => events.publish('byok.unreadable', key),
  )
  let endLoops: () => void = () => undefined
  const destinations = new OpenedDestinations(
    ids => readDestinations(gateway, ids),
    () => events.publish('destinations.changed', {}),
  )
  const alerts = new Mirror<Alert>({
    read: ids => store.alerts.all(ids),
    getName: ({ id }) => id,
    onChange: () => events.publish('alerts.changed', {}),
  })
  const mirrors = { byok, destinations, alerts }
  const send = overrides.egress ?? openEgress(() => gateway.config)
  const blobs =
    overrides.blobs ??
    openBlobs(data, config.storage, {
      ...{ send, clock },
      readPatience: () => gateway.config.timeouts.idle_seconds * 1000,
    })
  let endSharing: () => Promise<void> = async () => undefined
  const memory = await openMemory({ store, blobs }, owner, mirrors, () => endLoops())
  let activity: Activity | undefined
  const ledger = await openLedger(store.ledger, clock, claim?.openLeases)
  const gateway: Gateway = {
    get deliveries() {
      return deliveries()
    },
    get videos() {
      return videos()
    },
    config,
    instance: {
      configStatus: { applied: clock.now(), rejected: false },
      siteUrl: getSiteUrl(config.server),
      isLocal: isLoopback(config.server.host),
      isOneOfSeveral: false,
    },
    catalog,
    store,
    blobs,
    sandboxes: overrides.sandboxes ?? SANDBOXES,
    network: openNetwork(() => gateway),
    warm: new WarmContainers(),
    memory,
    traffic: {
      ...openTraffic(
        config,
        clock,
        ledger,
        await countFreeToday(store, config, counts?.clock ?? clock),
        { free: journal.free, ...(counts ? { shared: counts } : {}) },
        openApprovals(store, secrets, clock),
      ),
      admission: new Admission({ readLimits: () => gateway.config.limits, events }),
    },
    ledger,
    journal,
    recorder,
    writeLog: openWriteLog(store.writeLog, events),
    refusals: openRefusalLog({
      store: store.refusals,
      events,
      clock,
      readKeep: () => gateway.config.storage.refusals,
    }),
    rollups: openRollupKeeper({ store, events }),
    documents,
    healer,
    tokenizers,
    stages: overrides.stages ?? hot?.followSessions(STAGES) ?? STAGES,
    extensions: EXTENSIONS,
    plugins: overrides.plugins ?? PLUGINS,
    tools: overrides.tools ?? TOOLS,
    destinationKinds: overrides.destinationKinds ?? KINDS,
    hot,
    jobs: claim?.jobs ?? null,
    egress: {
      send,
      resolve: overrides.resolve ?? resolveHost,
      accessTokens: openAccessTokens(send, clock),
      programs: new Map(),
    },
    secrets,
    workloads: {
      tokens: new AccessTokens(secrets.derive),
      used: new UsedTokens(clock.now(), store.shared?.marks),
      get issuerKeys() {
        return issuerKeys()
      },
      making: new Map(),
    },
    logouts: [],
    events,
    get activity() {
      activity ??= new Activity(gateway)
      return activity
    },
    clock,
    ids,
    catchUp: shareRuns(async () => {
      const now = await store.version()
      if (now === version) return false
      const { changes, take } = await store.changes.read()
      await reload(gateway, changes)
      take()
      await gateway.warm.endGone(gateway)
      version = now
      return true
    }),
    refresh: shareRuns(async () => {
      await reload(gateway, null)
      return true
    }),
    lock: () => lockStore(store, data, clock),
    async close() {
      await endSharing()
      await gateway.deliveries.stop()
      await gateway.videos.stop()
      await gateway.warm.close()
      await Promise.all(Array.from(gateway.egress.programs.values(), program => program.end()))
      activity?.close()
      documents.close()
      healer.close()
      tokenizers.close()
      // Calls that waited for a token count settle now, and are recorded with the others.
      await yieldToEventLoop()
      await recorder.end()
      await ledger.leases?.end()
      await gateway.refusals.flush()
      await gateway.rollups.close()
      // Who only looks moves no end: what was added behind our back would count as ours.
      if (overrides.migrates !== false) await markEnds(gateway).catch(() => undefined)
      await blobs.close()
      await counts?.close()
      await hot?.close()
      await claim?.release()
      await store.close()
    },
  }
  const videos = memoize(() => createVideoJobs(gateway, overrides.pollPace))
  const deliveries = memoize(() =>
    createDeliveries(gateway, overrides.deliveryPace, overrides.openRenderer),
  )
  const issuerKeys = memoize(() => openIssuerKeys(gateway))
  endLoops = () => endLoopsOfGoneKeys(gateway)
  await byok.reload()
  await destinations.reload()
  await alerts.reload()
  if (store.shared && claim) {
    const { shareMemory } = await import('./sharing.ts')
    endSharing = await shareMemory(gateway, store.shared, claim.incarnation)
  }
  hot?.attach(gateway)
  return gateway
}

/** Opens Valkey, where the config names one. */
async function openHot(
  { storage: { valkey } }: Config,
  { store: { shared }, ...parts }: Pick<Gateway, 'store' | 'secrets' | 'events'>,
): Promise<Hot | null> {
  return valkey ? (await import('./valkey.ts')).openHot({ ...valkey, shared, ...parts }) : null
}

/** Reads everything that is kept in memory. A change of anything that policies use clears them. */
async function openMemory(
  { store, blobs }: Pick<Gateway, 'store' | 'blobs'>,
  owner: Owner,
  { byok, destinations, alerts }: Pick<Memory, 'byok' | 'destinations' | 'alerts'>,
  onKeysChange: () => void,
): Promise<Memory> {
  const policies = new Map<string, Policy>()
  const policyWatchers = new Set<() => void>()
  const byId = ({ id }: { id: string }) => id
  /** Drops those of these keys, whose policies alone are built from what has changed, or all. */
  const dropPolicies = (hashes?: Iterable<string>) => {
    if (!hashes) policies.clear()
    else for (const hash of hashes) policies.delete(hash)
    for (const tell of policyWatchers) tell()
  }
  const keys = await KeyMirror.openKeys(hashes => store.keys.all(hashes), {
    onChange(hashes) {
      dropPolicies(hashes)
      onKeysChange()
    },
    // As the store does.
    onDelete: hash => memory.assignments.delete(hash),
  })
  const memory: Memory = {
    owner,
    policies,
    policyWatchers,
    keys,
    byok,
    destinations,
    alerts,
    workspaces: await Mirror.open({
      read: ids => store.workspaces.all(ids),
      getName: byId,
      onChange: () => dropPolicies(),
    }),
    budgets: await Mirror.open({
      read: names => store.budgets.all(names),
      getName: buildBudgetName,
      onChange: () => dropPolicies(),
    }),
    presets: await Mirror.open({
      read: names => store.presets.all(names),
      getName: buildPresetName,
    }),
    assignments: await PackedMirror.openPacked(ASSIGNMENT_PACKING, {
      read: names => store.assignments.all(names),
      onChange(names) {
        const { keys, members } = groupAssignees([...(names ?? [])])
        dropPolicies(names && members.length === 0 ? keys : undefined)
      },
    }),
    guardrails: await Mirror.open({
      read: ids => store.guardrails.all(ids),
      getName: byId,
      onChange: () => dropPolicies(),
    }),
    credits: await store.credits.computeTotal(),
    forgetWorkspace(id) {
      forgetWorkspace(memory, id)
      // What a failure leaves, the next start of a server deletes.
      void blobs.removeWorkspace(id).catch(() => undefined)
    },
  }
  return memory
}

function forgetWorkspace(memory: Memory, id: string): void {
  const isInWorkspace = ({ workspace_id }: { workspace_id: string }) => workspace_id === id
  memory.workspaces.delete(id)
  memory.budgets.deleteWhere(isInWorkspace)
  memory.presets.deleteWhere(isInWorkspace)
  for (const guardrail of memory.guardrails.deleteWhere(isInWorkspace))
    memory.assignments.deleteMentioning(guardrail.id, one => one.guardrail_id === guardrail.id)
  memory.byok.deleteWhere(({ key }) => isInWorkspace(key))
  memory.destinations.deleteWhere(({ destination }) => isInWorkspace(destination))
  memory.alerts.deleteWhere(isInWorkspace)
}

/** Reads again what has changed, or everything, and has all of it change in one step. */
async function reload(gateway: Gateway, changes: Change[] | null): Promise<void> {
  const { memory } = gateway
  const changed = changes && Map.groupBy(changes, ({ noun }) => noun)
  if (changed?.has('credits') ?? true) {
    await reloadCredits(gateway)
    // An opening is written with its credit.
    await gateway.ledger.catchUp()
  }
  let parts = Object.entries(memory).flatMap(([noun, part]): MirrorPart[] => {
    if (!(part instanceof Mirror) || (changed && !changed.has(noun))) return []
    const names = changed?.get(noun)?.map(({ name }) => name)
    return [[part, names && !names.includes('') ? new Set(names) : null]]
  })
  do parts = await Mirror.readAgain(parts)
  while (parts.length > 0)
  if (!changes) memory.policies.clear()
  gateway.events.publish('store.reloaded', {})
}

function openTraffic(
  config: Config,
  clock: Clock,
  ledger: Ledger,
  freeSoFar: number,
  kept: Parameters<typeof openCounters>[4],
  approvals: Approvals,
): Omit<Traffic, 'admission'> {
  const readOns = new ReadOns()
  const calls = createRunningCalls(readOns)
  const health = new Health(config.routing, clock)
  return {
    calls,
    readOns,
    retryBudget: new RetryBudget(calls, health, clock),
    health,
    sessions: new Sessions(clock),
    approvals,
    responseCache: new ResponseCache(),
    largeAnswers: new LargeAnswers(),
    readDocuments: new ReadDocuments(),
    keptCalls: new KeptCalls(),
    background: new Map<string, AbortController>(),
    eventLogs: new EventLogs(),
    counters: openCounters(config, clock, ledger, freeSoFar, kept),
  }
}

const openApprovals = ({ shared }: Store, { derive }: Secrets, clock: Clock): Approvals =>
  new Approvals(
    shared
      ? {
          ...{ readKey: () => derive('approvals', 32), marks: shared.marks },
          now: () => Math.floor(clock.now().getTime() / 1000),
        }
      : null,
  )

const openJournal = (
  data: string | undefined,
  log: Log | null,
  mac: Mac,
  garbledRecords: number,
): Journal =>
  data === undefined || log === null
    ? { holds: createMemoryJournal(), head: NO_HEAD, garbledRecords, damaged: NO_DAMAGE }
    : {
        ...{ holds: openHoldJournal(data, log), head: openHeadFile(data, mac) },
        ...{ free: openFreeCalls(data), garbledRecords, damaged: openDamagedLogs(data) },
      }

const NO_DAMAGE: Journal['damaged'] = { list: () => [], accept: () => undefined }

function openSecrets(
  data: string | undefined,
  { secret: configured, previousSecret }: Pick<Partial<GatewayParts>, 'secret' | 'previousSecret'>,
): Secrets {
  const secret = memoize(() => resolveSecret(data, configured))
  const fingerprint = memoize(() => createFingerprint(secret))
  return {
    ...openRecordSecrets(secret),
    derive: (purpose, size) =>
      new Uint8Array(hkdfSync('sha256', secret(), new Uint8Array(0), purpose, size)),
    mac: openMacLate(() => createMac(secret)),
    previous: () => {
      const previous = findPreviousSecret(data, previousSecret)
      return previous && { ...openRecordSecrets(() => previous), mac: openMac(previous, 'records') }
    },
    fingerprint: text => fingerprint()(text),
  }
}

const openRecordSecrets = (secret: () => Uint8Array) => ({
  seal: memoize(() => openSeal(secret(), 'byok')),
  presetSeal: memoize(() => openSeal(secret(), 'presets')),
  contentSeal: memoize(() => openSeal(secret(), 'content')),
  destinationSeal: memoize(() => openSeal(secret(), 'destinations')),
})

const findPreviousSecret = (data: string | undefined, configured: string | undefined) =>
  configured !== undefined
    ? Buffer.from(configured)
    : data === undefined
      ? null
      : readPreviousSecret(data)

async function openStore(
  data: string | undefined,
  access: GatewayParts['access'] = 'command',
  log: Log | null,
  { macs, ...options }: Omit<SqliteOptions, 'path'> & { macs: LogMacs },
  postgres?: PostgresConfig,
): Promise<Store> {
  if (data === undefined || log === null) return openSqlite({ path: ':memory:', ...options })
  if (postgres) return openShared(data, access, postgres, { ...options, log, macs })
  // Before the first file: what is refused leaves no empty database.
  if (options.ownSecret && !existsSync(join(data, 'gateway.db')))
    refuseShortSecret(options.ownSecret)
  openDataDirectory(data)
  const recordLog = await takeRecordLog(data, access, { ...options, log, macs })
  try {
    const spool = openSpool(data, access, options.durability)
    const path = join(data, 'gateway.db')
    return await openSqlite({ path, recordLog: recordLog.log, spool, ...options })
  } finally {
    recordLog.unlock()
  }
}

/** Opens a store in Postgres. The data directory keeps what is this node's alone. */
async function openShared(
  data: string,
  access: GatewayParts['access'],
  postgres: PostgresConfig,
  { log, macs, ...options }: Omit<SqliteOptions, 'path'> & { log: Log; macs: LogMacs },
): Promise<Store> {
  makeDataDirectory(data)
  const { openPostgres } = await import('../store/postgres.ts')
  const recordLog = await takeRecordLog(data, access, { log, macs, durability: 'normal' })
  try {
    return await openPostgres({
      ...{ ...postgres, ...options },
      recordLog: recordLog.log,
      node: readNodeId(data) ?? undefined,
      refuseNew: () => refuseForgotten(data),
    })
  } finally {
    recordLog.unlock()
  }
}

/** Throws where a directory has a store of its own that would be forgotten for an empty one. */
function refuseForgotten(data: string): void {
  if ((statSync(join(data, 'gateway.db'), { throwIfNoEntry: false })?.size ?? 0) > 0)
    throw conflict(
      `${data} has data of a gateway, and the database of storage.postgres has none: copy it there ` +
        `(gateway store copy), or move ${join(data, 'gateway.db')} away`,
    )
}

/** Claims a store that several machines reach for this server; null for others, and other stores. */
async function claimStore(
  { nodes, close }: Store,
  {
    data,
    access,
    worker,
    isAlone,
  }: {
    data: string | undefined
    access: GatewayParts['access'] | undefined
    worker: number | undefined
    isAlone: boolean
  },
  clock: Clock,
  events: ClaimEvents,
): Promise<Claim | null> {
  if (!nodes || data === undefined || access !== 'server') return null
  try {
    return await nodes.claim({ ...nameNode(data, worker), isAlone }, clock, events)
  } catch (error) {
    await close()
    throw error
  }
}

async function lockStore(
  { nodes }: Store,
  data: string | undefined,
  clock: Clock,
): Promise<() => Promise<void>> {
  if (data === undefined) return async () => undefined
  const unlock = lockData(data)
  try {
    const unheard = { onLost: () => undefined, onDrain: () => undefined }
    const claim = await nodes?.claim({ ...nameNode(data), isAlone: true }, clock, unheard)
    return async () => {
      await claim?.release()
      unlock()
    }
  } catch (error) {
    unlock()
    throw error
  }
}

const guardStore = (
  data: string | undefined,
  seal: () => Seal,
  {
    access,
    patience = 5_000,
    migrates = true,
    onMigration,
  }: Partial<Pick<GatewayParts, 'access' | 'patience' | 'migrates' | 'onMigration'>>,
): Pick<SqliteOptions, 'guardMigration'> => {
  if (data === undefined || access === 'copy') return {}
  if (!migrates) return { guardMigration: refuseMigration }
  const isLocked = access === 'server'
  return { guardMigration: guardMigration(data, { isLocked, patience, seal, onMigration }) }
}

function openBlobs(
  data: string | undefined,
  { s3 }: Config['storage'],
  world: BucketWorld,
): BlobStore {
  if (data === undefined) return createMemoryBlobs()
  const directory = join(data, 'files')
  return s3 ? openS3Blobs(openBucket(world, s3), s3.prefix, directory) : openDiskBlobs(directory)
}

/** Opens ways out of containers, which most gateways never need. */
function openNetwork(world: () => UpstreamWorld): ContainerNetwork {
  let opening: Promise<ContainerNetwork> | undefined
  return {
    async open(hosts) {
      opening ??= import('../network/http/container-proxy.ts').then(({ openContainerNetwork }) =>
        openContainerNetwork(world),
      )
      return (await opening).open(hosts)
    },
  }
}

/** Holds that are kept in memory end with the process. */
const createMemoryJournal = (): HoldJournal => ({
  bytes: 0,
  lag: 0,
  keepsUp: true,
  append: () => FORGOTTEN,
  updateSpent: async () => undefined,
  listCalls: () => [],
  listGarbled: () => [],
  moveTo: async () => undefined,
  reseal: async () => undefined,
  clear: async () => undefined,
})

const FORGOTTEN = { written: Promise.resolve(), forget: () => undefined }
const NO_HEAD: HeadFile = {
  isKept: false,
  read: () => null,
  examine: () => 'missing',
  write: () => undefined,
}

// Counted only when free calls are limited, so that a restart does not grant another day's worth.
const countFreeToday = (
  { generations }: Store,
  { limits }: Config,
  clock: Clock,
): Promise<number> | number =>
  hasDailyFreeLimit(limits) ? generations.countFreeCalls(toMidnight(clock.now())) : 0

// Most runs never need these values, so they are computed on first use. The same holds for the
// secret's file.
function memoize<T>(make: () => T): () => T {
  let cached: { value: T } | undefined
  return () => {
    cached ??= { value: make() }
    return cached.value
  }
}

// A missing secret must not prevent the disabling of a key.
function createFingerprint(secret: () => Uint8Array): Fingerprint {
  try {
    return openFingerprint(secret())
  } catch {
    return () => 'unknown'
  }
}

// Nor may it here. What is sealed meanwhile is sealed with a key that is never known again, so
// `doctor` shows it.
function createMac(secret: () => Uint8Array): Mac {
  try {
    return openMac(secret(), 'records')
  } catch {
    return openMac(crypto.getRandomValues(new Uint8Array(32)), 'records')
  }
}

function describeSecret(data: string | undefined, configured: string | undefined): GivenSecret {
  return {
    findSource() {
      if (configured !== undefined) return 'GATEWAY_SECRET'
      return data === undefined || hasDataSecret(data) ? 'secret.key' : null
    },
    length: configured?.length ?? null,
    readMac() {
      try {
        return openMac(resolveSecret(data, configured), 'records')
      } catch {
        return null
      }
    },
  }
}

function resolveSecret(data: string | undefined, configured: string | undefined): Uint8Array {
  if (configured !== undefined) return Buffer.from(configured)
  return data === undefined ? crypto.getRandomValues(new Uint8Array(32)) : loadDataSecret(data)
}

async function ensureOwner(store: Store, ids: Ids, clock: Clock): Promise<Owner> {
  const owner = await store.owner({
    user_id: `user_${ids.uuid().replaceAll('-', '')}`,
    workspace_id: ids.uuid(),
  })
  // Written after the workspace: what reads must not wait for those who write.
  if ((await store.members.byIds([owner.user_id])).length > 0) return owner
  await store.workspaces.insertIfAbsent(
    buildDefaultWorkspace(owner.workspace_id, owner.user_id, clock.now()),
  )
  await store.members.insertIfAbsent(buildOwnerMember(owner, clock.now()))
  return owner
}
