import { Command } from 'commander'
import { addPlaceOptions, type CommonOptions } from '../options.ts'

/** The options of `gateway setup`. */
export interface SetupOptions extends CommonOptions {
  provider?: string
  baseUrl?: string
  model?: string
  check: boolean
  call: boolean
}

/**
 * `gateway setup`: from nothing to the first answer of a real model, step by step. What is there
 * already is kept, so it can be run again after a step has failed.
 */
export const createSetupCommand = () =>
  addPlaceOptions(
    new Command('setup').description(
      'set a gateway up, step by step: a provider, its key, a config, API keys, a first call',
    ),
  )
    .option('--provider <slug>', 'the provider; it is asked for if absent')
    .option('--base-url <url>', 'the address of that provider, if it is not its own')
    .option('--model <id>', 'the model of the first call; a cheap one of the provider if absent')
    .option('--no-check', 'write the config without checking the key')
    .option('--no-call', 'make no call')
    .action(async (options: SetupOptions) => {
      const { setUp } = await import('./setup/steps.ts')
      await setUp(options)
    })
