import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Gateway } from '../app/gateway.ts'
import { GatewayError, notFound } from '../base/errors.ts'
import type { Config } from '../config.ts'
import type { Actor } from '../resources/actor.ts'
import { getDataDirectory, hasData } from './data-directory.ts'
import { type CommonOptions, loadConfig, loadServedConfig, toGatewayParts } from './options.ts'
import { printNote } from './output.ts'

/** What a command does with a gateway as its operator. */
type GatewayTask<Result> = (gateway: Gateway, actor: Actor) => Result | Promise<Result>

/** What a command needs beside the config. */
export interface Needs {
  /** Whether it reads or writes the data directory (true). */
  data?: boolean
  /** Whether it sends requests to providers, with their secrets (false). */
  secrets?: boolean
  /** Whether it works with any secret, as `doctor --reseal` does (false). */
  anySecret?: boolean
  /** Whether it only looks at the data: then that is not migrated (false). */
  looks?: boolean
  /** Whether it makes the default data directory, if there is none and none was named (false). */
  makes?: boolean
  /** Whether what it does depends on the config (true). */
  config?: boolean
}

/**
 * Runs a task with the gateway of this data directory, and closes the gateway in any case. Throws
 * 404 where the directory has no gateway's data: the result would be meaningless, and what it
 * stores would be lost. A task that needs no data runs there all the same, unless the directory was
 * named and does not exist.
 */
export async function withGateway<Result>(
  options: CommonOptions,
  task: GatewayTask<Result>,
  {
    data: needsData = true,
    secrets = false,
    anySecret = false,
    looks = false,
    makes = false,
    config: needsConfig = true,
  }: Needs = {},
): Promise<Result> {
  const data = getDataDirectory(options)
  const isNamed = (options.data ?? process.env.GATEWAY_DATA) !== undefined
  const isMade = makes && !isNamed
  const loaded = await loadServedConfig(options, { withoutSecrets: !secrets }).catch(thrown => {
    if (needsConfig) throw thrown
    return goWithoutConfig(data, thrown)
  })
  const parts = toGatewayParts(options, loaded)
  const { config } = parts
  const isThere = hasData(data, config)
  if ((isNamed && !isThere && !existsSync(data)) || (needsData && !isThere && !isMade))
    throw notFound(
      `There is no data of a gateway in ${resolve(data)}: ` +
        'gateway init makes it, --data names another directory',
    )
  const access = { requiresOwnSecret: !anySecret, migrates: !looks }
  return runTask(isThere || isMade ? { ...parts, ...access } : { config }, task)
}

/**
 * Returns the defaults in the place of a config that is wrong, and says so on stderr, if a server
 * runs that has all its data in this directory: its keys must be stoppable also then. Throws what
 * was thrown elsewhere: only the config knows where the data is.
 */
async function goWithoutConfig(data: string, thrown: unknown): Promise<{ config: Config }> {
  const { createDefaultConfig } = await import('../config.ts')
  const { readStore } = await import('./status-socket.ts')
  if (!(thrown instanceof GatewayError) || (await readStore(data)) !== 'directory') throw thrown
  printNote(`The config is wrong, and is not used here: ${thrown.message}`)
  return { config: createDefaultConfig() }
}

/**
 * Runs a task like `withGateway`, and creates the directory if there is none. Without a config it
 * loads the directory's own.
 */
export async function withNewGateway<Result>(
  options: CommonOptions,
  task: GatewayTask<Result>,
  config?: Config,
): Promise<Result> {
  const loaded = config ? { config } : await loadConfig(options, { withoutSecrets: true })
  return runTask({ ...toGatewayParts(options, loaded), requiresOwnSecret: true }, task)
}

async function runTask<Result>(
  parts: Partial<ReturnType<typeof toGatewayParts>> & {
    requiresOwnSecret?: boolean
    migrates?: boolean
  },
  task: GatewayTask<Result>,
): Promise<Result> {
  const { openGateway } = await import('../app/gateway.ts')
  const { getOperator } = await import('../resources/actor.ts')
  const gateway = await openGateway(parts)
  try {
    return await task(gateway, getOperator(gateway))
  } finally {
    await gateway.close()
  }
}
