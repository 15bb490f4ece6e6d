import { Command } from 'commander'
import { conflict } from '../../core/errors.ts'
import { getDataDirectory } from '../data-directory.ts'
import { addCommonOptions, type CommonOptions } from '../options.ts'
import { print, printResult } from '../output.ts'
import { withNewGateway } from '../with-gateway.ts'

/** `gateway init`: creates a data directory with its default workspace and its first two keys. */
export const createInitCommand = () =>
  addCommonOptions(
    new Command('init').description('create the data directory and print its first keys, once'),
  ).action(init)

async function init(options: CommonOptions): Promise<void> {
  const { createFirstKeys } = await import('../../core/identity/workspaces.ts')
  const createdKeys = await withNewGateway(options, createFirstKeys)
  if (!createdKeys)
    throw conflict(
      `${getDataDirectory(options)} has keys already; make more with gateway keys create`,
    )
  printResult(options.json, createdKeys, printFirstKeys)
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
