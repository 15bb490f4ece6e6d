import type { Cancellation } from '../../base/cancellation.ts'
import { getIsoTime } from '../../base/clock.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { StoredFile } from '../../resources/files/store.ts'
import { findUsableFile, readStored } from '../../resources/files.ts'
import type { CommandResult, WrittenFile } from '../sandboxes/sandbox.ts'
import { emptyHome, keepHome, type RunningHome } from './home.ts'
import { isSessionContainer, NONCE_LENGTH, RESTART } from './names.ts'
import type { AllowedHosts } from './network.ts'
import type { Container, ContainerFile } from './store.ts'
import type { WarmWorld } from './warm.ts'

declare module '../../base/events.ts' {
  interface EventMap {
    /** A command has run in a container, or was killed in it. */
    'container.command': { seconds: number; outcome: 'exit' | 'timeout' | 'cancelled' | 'failed' }
  }
}

/** How long the files of a container stay after its last use (wire reference F.4). */
export const KEPT_DAYS = 30

/** What is to run, and where. */
interface CommandRequest {
  workspace_id: string
  /** The key that asks: keys share the containers that run at once. */
  holder: string
  /** The container’s name. */
  name: string
  /** Files of the workspace that are copied into the home first. */
  file_ids: string[]
  /** The hosts that they may ask; none: no network. */
  hosts: AllowedHosts
  commands: string[]
  timeoutMs: number
  /** The most characters of each stream. */
  maxOutput: number
  cancellation: Cancellation
}

/** What came of it. */
interface CommandOutcome {
  container: Container
  results: CommandResult[]
  /** The files that were made or changed. */
  files: ContainerFile[]
  /** How many entries of the home are not kept. */
  left: number
}

/**
 * Runs commands in a container, one after the other, and puts its home on record after each. The
 * container is made if it does not exist. Throws 400 for a file that does not exist, 403 where the
 * quota is used up, 409 where the container runs with other hosts, 503 where none can run, and the reason of the cancellation.
 */
export async function runCommands(
  world: WarmWorld,
  request: CommandRequest,
): Promise<CommandOutcome> {
  const files = await requireFiles(world, request.workspace_id, request.file_ids)
  const container = await openContainer(world, request.workspace_id, request.name)
  const { hosts, cancellation, holder } = request
  return world.warm.use(world, { container, hosts, cancellation, holder }, async (home, copied) => {
    try {
      await copyIn(world, home, copied, files)
      return await runEach(world, home, request)
    } catch (thrown) {
      // What is in the home is not what is on record any more.
      await home.box.close()
      throw thrown
    }
  })
}

async function runEach(
  world: WarmWorld,
  home: RunningHome,
  request: CommandRequest,
): Promise<CommandOutcome> {
  const results: CommandResult[] = []
  const files = new Map<string, ContainerFile>()
  let left = 0
  for (const text of request.commands) {
    results.push(await runOne(world, home, text, request))
    // One that could only be stopped by ending the sandbox has left nothing.
    if (home.box.isGone) break
    const kept = await keepHome(world, home)
    for (const file of kept.changed) files.set(file.path, file)
    left = kept.left
  }
  return { container: home.container, results, files: [...files.values()], left }
}

async function runOne(
  { clock, events }: WarmWorld,
  { box }: RunningHome,
  text: string,
  { timeoutMs, maxOutput, cancellation }: CommandRequest,
): Promise<CommandResult> {
  const startedAt = clock.ticks()
  const publish = (outcome: 'exit' | 'timeout' | 'cancelled' | 'failed') =>
    events.publish('container.command', { seconds: (clock.ticks() - startedAt) / 1000, outcome })
  try {
    const result = await box.run({ text, timeoutMs, maxOutput, cancellation })
    publish(result.exitCode === null ? 'timeout' : 'exit')
    return result
  } catch (thrown) {
    publish(cancellation.reason ? 'cancelled' : 'failed')
    throw thrown
  }
}

/** Finds files of a workspace. Throws 400 naming the first that does not exist. */
export async function requireFiles(
  world: WarmWorld,
  workspace_id: string,
  ids: string[],
  field = 'file_ids',
): Promise<StoredFile[]> {
  const files: StoredFile[] = []
  for (const [i, id] of ids.entries()) {
    const file = await findUsableFile(world, workspace_id, id)
    if (!file) throw invalid(`${field}.${i}: expected a file of this workspace`, `${field}.${i}`)
    files.push(file)
  }
  return files
}

/** Copies files into a home, as `<last 8 of the id>-<name>`, unless they are there. */
async function copyIn(
  { blobs }: WarmWorld,
  { box, kept }: RunningHome,
  copied: Set<string>,
  files: StoredFile[],
): Promise<void> {
  const missing = files.filter(file => !copied.has(file.id) && !kept.has(nameCopy(file)))
  async function* read(): AsyncIterable<WrittenFile> {
    for (const file of missing) {
      const pieces = await readStored({ blobs }, file)
      yield { path: nameCopy(file), mode: 0o644, size: file.size_bytes, pieces }
    }
  }
  if (missing.length > 0) await box.write(read())
  for (const { id } of files) copied.add(id)
}

const nameCopy = ({ id, filename }: StoredFile): string =>
  `${id.slice(-8)}-${filename.slice(filename.lastIndexOf('/') + 1)}`

/**
 * Returns the container of a name, which is made if there is none. A session whose container was
 * ended gets another, with a suffix: what it remembers of the first is gone (wire reference F.4).
 */
export async function openContainer(
  world: WarmWorld,
  workspace_id: string,
  name: string,
): Promise<Container> {
  const found = await findUsable(world, workspace_id, name)
  if (found && found.ended_at === null) return found
  if (!found) return insertContainer(world, workspace_id, name)
  const restarted = await world.store.containers.findSuccessor(workspace_id, name)
  if (restarted && !isExpired(world, restarted)) return restarted
  const nonce = world.ids.secret().slice(-NONCE_LENGTH)
  return insertContainer(world, workspace_id, `${name}${RESTART}${nonce}`)
}

async function insertContainer(
  world: WarmWorld,
  workspace_id: string,
  name: string,
): Promise<Container> {
  const created_at = getIsoTime(world)
  const container: Container = {
    ...{ id: world.ids.uuid().replaceAll('-', ''), workspace_id, name },
    ...{ created_at, last_used_at: created_at, ended_at: null },
  }
  try {
    await world.store.containers.insert(container)
    return container
  } catch (thrown) {
    const isTaken = thrown instanceof GatewayError && thrown.type === 'conflict'
    const other = isTaken ? await world.store.containers.find(workspace_id, name) : undefined
    if (other) return other
    throw thrown
  }
}

/** Returns a container, after ending it if it has been unused for too long. */
async function findUsable(world: WarmWorld, workspace_id: string, name: string) {
  const { containers } = world.store
  const found = await containers.find(workspace_id, name)
  if (!found || found.ended_at !== null || !isExpired(world, found)) return found
  await world.warm.end(found.id)
  await emptyHome(world, found)
  await containers.end(found.id, isSessionContainer(name) ? getIsoTime(world) : null, null)
  return containers.find(workspace_id, name)
}

const DAY = 24 * 3600 * 1000

/** Whether a container has been unused for so long that its files are not kept any more. */
export const isExpired = (
  { clock }: Pick<WarmWorld, 'clock'>,
  { last_used_at }: Container,
  days = KEPT_DAYS,
): boolean => clock.now().getTime() - Date.parse(last_used_at) >= days * DAY
