import { resolve } from 'node:path'
import type { Static, TSchema } from '@sinclair/typebox'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Gateway, GatewayParts } from '../app/gateway.ts'
import { invalid } from '../base/errors.ts'
import { describeIssue, findSchemaIssue } from '../base/schema.ts'
import type { Actor } from '../resources/actor.ts'
import type { ConfigFile, ConfigPaths, ReadingOptions } from './config-file.ts'
import { getDataDirectory } from './data-directory.ts'
import { printNote } from './output.ts'

/** The options of every command. */
export interface CommonOptions {
  json?: boolean
  field?: string
  data?: string
  config?: string
}

/** The heading of the options that every command has. */
export const COMMON_HEADING = 'Options of every command:'

/** Adds the options of every command that prints an answer. */
export const addCommonOptions = (command: Command): Command =>
  addPlaceOptions(addShapeOptions(command, 'print exactly what the API would return'))

/** Adds the options that say how an answer is printed. */
export const addShapeOptions = (command: Command, json: string): Command =>
  command
    .addOption(new Option('--json', json).conflicts('field').helpGroup(COMMON_HEADING))
    .addOption(
      new Option(
        '--field <names>',
        'print these fields of it alone, with commas between: a line for each row, with tabs',
      ).helpGroup(COMMON_HEADING),
    )

/** Adds the options that say where the data and the config are. */
export const addPlaceOptions = (command: Command): Command =>
  command
    .addOption(
      new Option('--data <dir>', 'the data directory (GATEWAY_DATA; ./gateway-data)').helpGroup(
        COMMON_HEADING,
      ),
    )
    .addOption(
      new Option(
        '--config <file>',
        'the config file (GATEWAY_CONFIG; gateway.yaml in the data directory, or beside ./gateway-data)',
      ).helpGroup(COMMON_HEADING),
    )

/** Creates the option that names the dialect of a body. It defaults to chat. */
export const createDialectOption = (names: readonly string[]): Option =>
  new Option('--dialect <dialect>', 'the dialect of the body').choices(names).default('chat')

/** Parses a number on the command line. */
export function parseNumber(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value))
    throw new InvalidArgumentError('expected a number')
  return value
}

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Parses a length of time on the command line, such as `24h`, to seconds. */
export function parseDuration(text: string): number {
  const [, count, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? []
  if (text === '0') return 0
  if (count === undefined) throw new InvalidArgumentError('expected a time such as 30m, 24h or 7d')
  return Number(count) * (SECONDS[unit] ?? 0)
}

/** Converts flags to the API's input. Throws `invalid_request` with the same message as the API. */
export function parseInput<T extends TSchema>(
  schema: T,
  flags: Record<string, unknown>,
): Static<T> {
  const input = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined))
  const issue = findSchemaIssue(schema, input)
  if (issue) throw invalid(describeIssue(issue, issue.path || 'input'), issue.path)
  return input as Static<T>
}

/** Loads the config. Throws `invalid_request` if it is wrong. */
export async function loadConfig(
  options: CommonOptions,
  reading: ReadingOptions = {},
): Promise<ConfigFile> {
  const { listConfigPaths, readConfig } = await import('./config-file.ts')
  return readConfig(listConfigPaths(options.config, getDataDirectory(options)), reading)
}

/**
 * Loads the config like `loadConfig`, but that of the server that runs on the data directory, if one
 * does and no other is named.
 */
export async function loadServedConfig(
  options: CommonOptions,
  reading: ReadingOptions = {},
): Promise<ConfigFile> {
  const { readConfig } = await import('./config-file.ts')
  return readConfig(await listServedPaths(options), reading)
}

/**
 * Lists where the config of the server that runs on the data directory is, or may be. Says on stderr
 * which file is read where it is not the one that the server started with.
 */
export async function listServedPaths(options: CommonOptions): Promise<ConfigPaths> {
  const { findConfigPath, listConfigPaths } = await import('./config-file.ts')
  const { readServedConfig } = await import('./status-socket.ts')
  const data = getDataDirectory(options)
  const own = listConfigPaths(options.config, data)
  const served = await readServedConfig(data)
  const used = own.isNamed ? own.paths[0] : findConfigPath(own.paths)
  const isSame = served === (used === undefined ? null : resolve(used))
  if (served === undefined || isSame) return own
  if (served !== null && !own.isNamed) return { paths: [served], isNamed: true }
  const start = served === null ? 'without a config file' : `with ${served}`
  printNote(`Read ${resolve(used ?? '')}: the server that runs on this data started ${start}`)
  return own
}

/**
 * Returns what a gateway is opened with: the config, the data directory, and the secrets that the
 * environment has.
 */
export function toGatewayParts(
  options: CommonOptions,
  { config }: Pick<ConfigFile, 'config'>,
): Pick<GatewayParts, 'config' | 'data'> &
  Partial<Pick<GatewayParts, 'secret' | 'previousSecret'>> {
  const { GATEWAY_SECRET: secret, GATEWAY_PREVIOUS_SECRET: previousSecret } = process.env
  return {
    config,
    data: getDataDirectory(options),
    ...(secret ? { secret } : {}),
    ...(previousSecret ? { previousSecret } : {}),
  }
}

/**
 * Finds the id of the workspace that an option names by id, slug, name, or a beginning of one. The
 * API takes ids. Throws 404, and 400 where several are meant.
 */
export async function findWorkspaceId(
  gateway: Gateway,
  text: string | undefined,
): Promise<string | undefined> {
  if (text === undefined) return undefined
  const { requireWorkspace } = await import('../resources/workspaces.ts')
  const { getOperator } = await import('../resources/actor.ts')
  const { findId, WORKSPACES } = await import('./names.ts')
  return requireWorkspace(gateway, await findId(WORKSPACES, gateway, getOperator(gateway), text)).id
}

/** Returns the operator in the workspace of `--workspace`, for what belongs to the actor's own. */
export const actInWorkspace = async (
  gateway: Gateway,
  operator: Actor,
  { workspace }: { workspace?: string },
): Promise<Actor> => ({
  ...operator,
  workspace_id: (await findWorkspaceId(gateway, workspace)) ?? operator.workspace_id,
})
