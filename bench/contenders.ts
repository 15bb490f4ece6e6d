import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Child, startChild } from '../src/cli/bench/children.ts'
import {
  CORES,
  type Contender,
  initGateway as initProgram,
  startUpstream as startMock,
  startGateway as startProgram,
} from '../src/cli/bench/contenders.ts'

export {
  CORES,
  type Contender,
  renderSingleModelConfig,
  startFloor,
} from '../src/cli/bench/contenders.ts'

const ROOT = resolve(import.meta.dir, '..')

/** Starts the mock provider of `gateway bench`, or a program of this folder in its place. */
export const startUpstream = (
  home: string,
  env: Record<string, string>,
  program?: string,
): Promise<Child> =>
  program === undefined
    ? startMock(home, env)
    : startChild({
        ...{ name: 'upstream', core: CORES.tools, home, env },
        command: [process.execPath, join(import.meta.dir, program)],
      })

/**
 * Writes the config, runs `gateway init` in a data directory, and returns the inference key.
 * `program` defaults to the built one.
 */
export async function initGateway(
  config: string,
  home: string,
  program = [getGatewayBinary()],
): Promise<string> {
  return (await initProgram(config, home, program)).key
}

/** Starts the gateway on the directory that `initGateway` prepared. */
export const startGateway = (
  key: string,
  home: string,
  program = [getGatewayBinary()],
): Promise<Contender> => startProgram({ program, data: join(home, 'data'), key })

/** Returns the path of the binary under test: GATEWAY_BIN, else dist/gateway. */
export const getGatewayBinary = (): string =>
  resolve(process.env.GATEWAY_BIN ?? join(ROOT, 'dist/gateway'))

/** Builds dist/gateway if it does not exist. Throws if it does not exist after that. */
export async function ensureGateway(): Promise<void> {
  if (existsSync(getGatewayBinary())) return
  if (!process.env.GATEWAY_BIN)
    Bun.spawnSync([process.execPath, 'run', 'build'], { cwd: ROOT, timeout: 120_000 })
  if (!existsSync(getGatewayBinary())) throw new Error(`There is no ${getGatewayBinary()}`)
}
