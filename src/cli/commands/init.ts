import { Command } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import { conflict, invalid } from '../../base/errors.ts'
import { getDataDirectory } from '../data-directory.ts'
import { addCommonOptions, type CommonOptions } from '../options.ts'
import { print, printNote, printResult } from '../output.ts'
import { withNewGateway } from '../with-gateway.ts'
import type { PreparedConfig } from './init/provider.ts'

interface InitOptions extends CommonOptions {
  provider?: string
  baseUrl?: string
  check: boolean
}

/**
 * `gateway init`: creates a data directory with its default workspace and its first two keys, and
 * with `--provider`, or a key in the environment, a config that can call real models.
 */
export const createInitCommand = () =>
  addCommonOptions(
    new Command('init').description(
      'create the data directory and print its first keys, once; with a config where the ' +
        'environment has the key of a provider',
    ),
  )
    .option(
      '--provider <slug>',
      'write a config with this provider: its key is taken from its variable, else asked for ' +
        'or read from stdin, and checked',
    )
    .option('--base-url <url>', 'the address of that provider, if it is not its own')
    .option('--no-check', 'write the config without checking the key')
    .addHelpText('after', HELP)
    .action(init)

const HELP = `
Writes into the data directory, readable by its owner alone:
  gateway.db, ledger.head  the database, and where its ledger ends
  secret.key               what stored provider keys and sessions are sealed with
With --provider, or a provider's key in the environment, and without a config so far:
  gateway.yaml             the provider, a default model, and examples in comments
  gateway.schema.json      what editors complete and check gateway.yaml with
  <provider>.key           its key, if no variable has it`

async function init({ provider, ...options }: InitOptions): Promise<void> {
  if (provider === undefined && options.baseUrl !== undefined)
    throw invalid('--base-url: expected --provider beside it')
  const core = await import('./init/provider.ts')
  const prepared = await (provider === undefined
    ? core.prepareFoundConfig(options)
    : core.prepareConfig({ ...options, provider }))
  const createdKeys = await createDirectory(options, prepared)
  if (!createdKeys && !prepared)
    throw conflict(
      `${getDataDirectory(options)} has keys already; make more with gateway keys create`,
    )
  const config = prepared ? { config: prepared.file, model: prepared.model } : {}
  await printResult(options, { ...createdKeys, ...config }, () => {
    if (prepared) printNote(`Wrote ${prepared.file}: gateway serve reads it`)
    if (createdKeys) printFirstKeys(createdKeys)
  })
}

async function createDirectory(options: InitOptions, prepared: PreparedConfig | undefined) {
  const { createFirstKeys } = await import('../../resources/workspaces.ts')
  if (!prepared) return withNewGateway(options, createFirstKeys)
  const { writeConfig } = await import('./init/provider.ts')
  const { createDefaultConfig } = await import('../../config.ts')
  const task = (gateway: Gateway) => {
    writeConfig(prepared)
    return createFirstKeys(gateway)
  }
  return withNewGateway(options, task, createDefaultConfig())
}

/** Prints the first keys for a person. They are not stored anywhere else. */
export function printFirstKeys({
  management_key,
  inference_key,
}: {
  management_key: string
  inference_key: string
}): void {
  print('These keys are shown once and stored nowhere:')
  print(`  management  ${management_key}`)
  print(`  inference   ${inference_key}`)
}
