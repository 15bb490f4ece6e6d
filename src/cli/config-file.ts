import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Config, defaultConfig, parseConfig } from '../core/config.ts'
import { GatewayError, invalid } from '../core/errors.ts'

/** A config and where it came from; null when it is the defaults. */
export interface ConfigFile {
  config: Config
  file: string | null
  /** What stands in it. */
  text: string
}

/**
 * Where the config may be, the first that there is: what the flag or `GATEWAY_CONFIG` names, or `gateway.yaml` of the data or the current
 * directory.
 */
export function configPlaces(flag: string | undefined, data: string): string[] {
  const named = flag ?? process.env.GATEWAY_CONFIG
  return named === undefined ? [join(data, 'gateway.yaml'), 'gateway.yaml'] : [named]
}

/**
 * The config at the first of these places, where one must be if there is only one. Throws `invalid_request` naming the file, and the
 * setting that is wrong.
 */
export async function readConfig(places: string[]): Promise<ConfigFile> {
  const file = places.length === 1 ? places[0] : placeOf(places)
  return file === undefined ? { config: defaultConfig(), file: null, text: '' } : open(file)
}

/** The first of these places where there is anything, whatever it is. */
export const placeOf = (places: string[]): string | undefined =>
  places.find(place => existsSync(place))

/** A file of this size would keep everybody waiting while it is read. In bytes. */
const LARGEST = 16 * 1024 * 1024

async function open(file: string): Promise<ConfigFile> {
  const text = await textOf(file)
  try {
    return { config: parseConfig(text, process.env), file, text }
  } catch (thrown) {
    throw naming(file, thrown)
  }
}

/** What was thrown about the config of this file, with the file's name before it. */
export const naming = (file: string | null, thrown: unknown): unknown =>
  file !== null && thrown instanceof GatewayError
    ? new GatewayError(thrown.type, `${file}: ${thrown.message}`, { metadata: thrown.metadata })
    : thrown

async function textOf(file: string): Promise<string> {
  const { size } = await stat(file).catch(unreadable(file))
  if (size > LARGEST) throw invalid(`${file}: expected at most ${LARGEST} bytes`)
  // To its end and not to that size: another file may have come into its place.
  const text = await readFile(file, 'utf8').catch(unreadable(file))
  // Whoever wants the defaults can say `{}`; what is empty was lost, or is just being written.
  if (text.trim() === '') throw invalid(`${file}: expected settings, found an empty file`)
  return text
}

const unreadable = (file: string) => (cause: unknown) => {
  throw new GatewayError('invalid_request', `${file}: the config file cannot be read`, { cause })
}
