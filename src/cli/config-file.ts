import { join } from 'node:path'
import { type Config, defaultConfig, parseConfig } from '../core/config.ts'
import { GatewayError, invalid } from '../core/errors.ts'

/** A config and where it came from; null when it is the defaults. */
export interface ConfigFile {
  config: Config
  file: string | null
}

/**
 * The config that the flag or `GATEWAY_CONFIG` names, or `gateway.yaml` of the data or the current directory if there is one.
 * Throws `invalid_request` naming the file, and the setting that is wrong.
 */
export async function readConfig(flag: string | undefined, data: string): Promise<ConfigFile> {
  const named = flag ?? process.env.GATEWAY_CONFIG
  if (named !== undefined) return open(named)
  for (const file of [join(data, 'gateway.yaml'), 'gateway.yaml']) if (await Bun.file(file).exists()) return open(file)
  return { config: defaultConfig(), file: null }
}

async function open(file: string): Promise<ConfigFile> {
  const text = await Bun.file(file)
    .text()
    .catch(() => {
      throw invalid(`${file}: the config file cannot be read`)
    })
  try {
    return { config: parseConfig(text, process.env), file }
  } catch (thrown) {
    throw thrown instanceof GatewayError
      ? new GatewayError(thrown.type, `${file}: ${thrown.message}`, { metadata: thrown.metadata })
      : thrown
  }
}
