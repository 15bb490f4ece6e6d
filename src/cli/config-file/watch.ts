import { stat } from 'node:fs/promises'
import { GatewayError, invalid } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import { reconfigure, rejectConfig } from '../../core/reconfigure.ts'
import { type ConfigFile, naming, placeOf, readConfig } from '../config-file.ts'

/**
 * Applies the config at these paths to a running gateway whenever it changes. A wrong config
 * changes nothing and raises an alarm until a correct one is found.
 */
export class ConfigWatch {
  readonly #gateway: Gateway
  readonly #places: string[]
  /** The config that was applied last. */
  #taken: ConfigFile
  /** The signature of the file at the last look, and at the last read. */
  #seen: string | null = null
  #read: string | null = null
  /** The signature of the last file that was rejected. */
  #told: string | null = null
  #busy: Promise<void> | null = null

  constructor(gateway: Gateway, places: string[], taken: ConfigFile) {
    this.#gateway = gateway
    this.#places = places
    this.#taken = taken
  }

  /**
   * Looks whether the file has changed. A change since the last look is left until the next one: an
   * editor may still be writing it. Never throws.
   */
  look(): Promise<void> {
    return this.#busy ?? this.#alone(() => this.#takeChanged())
  }

  /** Reads the file now, whether it has changed or not. Never throws. */
  async reload(): Promise<void> {
    while (this.#busy) await this.#busy
    await this.#alone(async () => this.#take(await lookOf(this.#places), true))
  }

  async #alone(work: () => Promise<void>): Promise<void> {
    this.#busy = work().finally(() => {
      this.#busy = null
    })
    await this.#busy
  }

  async #takeChanged(): Promise<void> {
    const look = await lookOf(this.#places)
    const isSettled = look === this.#seen
    // A pipe can be read only once, and was read at the start.
    if (this.#seen === null && look === NO_FILE) this.#read = look
    this.#seen = look
    if (isSettled && look !== this.#read) await this.#take(look, false)
  }

  async #take(look: string, isAsked: boolean): Promise<void> {
    // Noted before the read, so that a write meanwhile counts as a change.
    this.#read = look
    try {
      const found = await this.#found(look)
      if (
        !isAsked &&
        found.text === this.#taken.text &&
        found.file === this.#taken.file &&
        !this.#gateway.instance.configStatus.rejected
      )
        return
      await this.#put(found)
    } catch (thrown) {
      this.#reject(GatewayError.from(thrown), look, isAsked)
    }
  }

  // A failure that is not the text's (a disk, the store) may be over at the next look. It is
  // reported once.
  #reject(error: GatewayError, look: string, isAsked: boolean): void {
    if (error.cause !== undefined) this.#read = null
    if (isAsked || look !== this.#told) rejectConfig(this.#gateway, error)
    this.#told = look
  }

  async #put(found: ConfigFile): Promise<void> {
    await reconfigure(this.#gateway, found.config).catch(thrown => {
      throw naming(found.file, thrown)
    })
    this.#taken = found
    this.#told = null
  }

  // A pipe may never end, and falling back to the defaults would drop every provider.
  async #found(look: string): Promise<ConfigFile> {
    if (look === NO_FILE)
      throw invalid(`${placeOf(this.#places)}: expected a file, which can be read again`)
    const found = await readConfig(this.#places)
    if (found.file === null && this.#taken.file !== null)
      throw invalid(`${this.#taken.file}: expected the config file, found nothing`)
    return found
  }
}

const NOTHING = 'nothing'
const NO_FILE = 'no file'

/**
 * Reads the signature of what is at the first of these paths, without its content. Another
 * signature means another file.
 */
async function lookOf(places: string[]): Promise<string> {
  const place = placeOf(places)
  const found =
    place === undefined ? undefined : await stat(place, { bigint: true }).catch(() => undefined)
  if (!found) return NOTHING
  return found.isFile()
    ? [place, found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' ')
    : NO_FILE
}
