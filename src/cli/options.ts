import type { Static, TSchema } from '@sinclair/typebox'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { invalid } from '../core/errors.ts'
import type { Gateway, Parts } from '../core/gateway.ts'
import { misfit } from '../core/kernel/schema.ts'
import type { ConfigFile } from './config-file.ts'

/** The options of every command. */
export interface CommonOptions {
  json?: boolean
  data?: string
  config?: string
}

/** Adds the options of every command. */
export const common = (command: Command): Command =>
  command
    .option('--json', 'print exactly what the API would return')
    .option('--data <dir>', 'the data directory (GATEWAY_DATA; ./gateway-data)')
    .option(
      '--config <file>',
      'the config file (GATEWAY_CONFIG; gateway.yaml in the data or the current directory)',
    )

/** Creates the option that names the dialect of a body. It defaults to chat. */
export const dialectOption = (names: readonly string[]): Option =>
  new Option('--dialect <dialect>', 'the dialect of the body').choices(names).default('chat')

/** Parses a number on the command line. */
export function numeric(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value))
    throw new InvalidArgumentError('expected a number')
  return value
}

/** Converts flags to the API's input. Throws `invalid_request` with the same message as the API. */
export function inputOf<T extends TSchema>(schema: T, flags: Record<string, unknown>): Static<T> {
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined))
  const wrong = misfit(schema, given)
  if (wrong)
    throw invalid(
      `${wrong.path || 'input'}: expected ${wrong.expected}, found ${wrong.found}`,
      wrong.path,
    )
  return given as Static<T>
}

/** Returns the data directory: the flag, else the environment, else the default. */
export const dataDirectory = ({ data }: CommonOptions): string =>
  data ?? process.env.GATEWAY_DATA ?? './gateway-data'

/** Loads the config. Throws `invalid_request` if it is wrong. */
export async function configOf(options: CommonOptions): Promise<ConfigFile> {
  const { configPlaces, readConfig } = await import('./config-file.ts')
  return readConfig(configPlaces(options.config, dataDirectory(options)))
}

/**
 * Returns what a gateway is opened with: the config, the data directory, and the secret if the
 * environment has one.
 */
export function partsOf(
  options: CommonOptions,
  { config }: ConfigFile,
): Pick<Parts, 'config' | 'data'> & Partial<Pick<Parts, 'secret'>> {
  const secret = process.env.GATEWAY_SECRET
  return { config, data: dataDirectory(options), ...(secret ? { secret } : {}) }
}

/**
 * Finds the id of the workspace that an option names by id or slug. Slugs are names for people; the
 * API takes ids. Throws 404.
 */
export async function workspaceId(
  gateway: Gateway,
  idOrSlug: string | undefined,
): Promise<string | undefined> {
  if (idOrSlug === undefined) return undefined
  const { workspaceBy } = await import('../core/identity/workspaces.ts')
  return workspaceBy(gateway, idOrSlug).id
}
