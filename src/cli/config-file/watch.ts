import { stat } from 'node:fs/promises'
import type { Gateway } from '../../app/gateway.ts'
import { reconfigure, rejectConfig } from '../../app/reconfigure.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import {
  type ConfigFile,
  type ConfigPaths,
  findConfigPath,
  nameConfigFile,
  readConfig,
} from '../config-file.ts'
import type { ReadingResult } from './worker.ts'

/**
 * Applies the config at these paths to a running gateway whenever it changes. A wrong config
 * changes nothing and raises an alarm until a correct one is found.
 */
export class ConfigWatch {
  readonly #gateway: Gateway
  readonly #paths: ConfigPaths
  /** The config that was applied last. */
  #applied: ConfigFile
  /** The signature of the file at the last look, and at the last read. */
  #seen: string | null = null
  #read: string | null = null
  /** The signature of the last file that was rejected. */
  #reported: string | null = null
  #busy: Promise<void> | null = null

  constructor(gateway: Gateway, paths: ConfigPaths, applied: ConfigFile) {
    this.#gateway = gateway
    this.#paths = paths
    this.#applied = applied
  }

  /**
   * Looks whether the file has changed. A change since the last look is left until the next one: an
   * editor may still be writing it. Never throws.
   */
  look(): Promise<void> {
    return this.#busy ?? this.#runAlone(() => this.#applyChanged())
  }

  /** Reads the file now, whether it has changed or not. Never throws. */
  async reload(): Promise<void> {
    while (this.#busy) await this.#busy
    await this.#runAlone(async () => this.#applyFound(await readSignature(this.#paths), true))
  }

  async #runAlone(work: () => Promise<void>): Promise<void> {
    this.#busy = work().finally(() => {
      this.#busy = null
    })
    await this.#busy
  }

  async #applyChanged(): Promise<void> {
    const look = await readSignature(this.#paths)
    const isSettled = look === this.#seen
    // A pipe can be read only once, and was read at the start.
    if (this.#seen === null && look === NO_FILE) this.#read = look
    this.#seen = look
    if (isSettled && look !== this.#read) await this.#applyFound(look, false)
  }

  async #applyFound(look: string, isForced: boolean): Promise<void> {
    // Noted before the read, so that a write meanwhile counts as a change.
    this.#read = look
    try {
      const found = await this.#readFound(look)
      if (
        !isForced &&
        found.text === this.#applied.text &&
        found.file === this.#applied.file &&
        !this.#gateway.instance.configStatus.rejected
      )
        return
      await this.#apply(found)
    } catch (thrown) {
      this.#reject(GatewayError.from(thrown), look, isForced)
    }
  }

  // A failure that is not the text's (a disk, the store) may be over at the next look. It is
  // reported once.
  #reject(error: GatewayError, look: string, isForced: boolean): void {
    if (error.cause !== undefined) this.#read = null
    if (isForced || look !== this.#reported) rejectConfig(this.#gateway, error)
    this.#reported = look
  }

  async #apply(found: ConfigFile): Promise<void> {
    await reconfigure(this.#gateway, found.config).catch(async thrown => {
      throw await nameConfigFile(found.file, thrown, found.text)
    })
    this.#applied = found
    this.#reported = null
  }

  // A pipe may never end, and falling back to the defaults would drop every provider.
  async #readFound(look: string): Promise<ConfigFile> {
    if (look === NO_FILE)
      throw invalid(
        `${findConfigPath(this.#paths.paths)}: expected a file, which can be read again`,
      )
    const found = await ((await isLarge(this.#paths)) ? readAside : readConfig)(this.#paths)
    if (found.file === null && this.#applied.file !== null)
      throw invalid(`${this.#applied.file}: expected the config file, found nothing`)
    return found
  }
}

/** In bytes. To read more, right or wrong, may take longer than calls should wait. */
const LARGE = 64 * 1024

async function isLarge({ paths }: ConfigPaths): Promise<boolean> {
  const path = findConfigPath(paths)
  return path !== undefined && (await stat(path)).size > LARGE
}

/** Reads a config as `readConfig` does, in a Worker, while calls go on. */
async function readAside(paths: ConfigPaths): Promise<ConfigFile> {
  // Few configs are so large.
  const [{ JobWorker }, { startWorkerAtOnce }] = await Promise.all([
    import('../../base/job-worker.ts'),
    import('../../base/worker.ts'),
  ])
  const worker = new JobWorker<ConfigPaths, ReadingResult>({
    startWorker: () => startWorkerAtOnce(getWorkerUrl()),
    ...{ timeoutMs: 60_000, idleMs: 0, maxWaiting: 1, maxWaitingSize: 1 },
  })
  try {
    const read = await worker.run(paths, 1)
    if ('found' in read) return read.found
    const { type, message, isOfText } = read
    throw new GatewayError(type, message, isOfText ? {} : { cause: message })
  } finally {
    worker.close()
  }
}

// In the compiled binary, entry points keep their paths in src.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './cli/config-file/worker.ts' : './worker.ts',
    import.meta.url,
  )

const NO_ENTRY = 'nothing'
const NO_FILE = 'no file'

/**
 * Reads the signature of what is at the first of these paths, without its content. Another
 * signature means another file.
 */
async function readSignature({ paths }: ConfigPaths): Promise<string> {
  const path = findConfigPath(paths)
  const stats =
    path === undefined ? undefined : await stat(path, { bigint: true }).catch(() => undefined)
  if (!stats) return NO_ENTRY
  return stats.isFile()
    ? [path, stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ')
    : NO_FILE
}
