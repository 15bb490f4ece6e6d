import { Command } from 'commander'
import { conflict } from '../../core/errors.ts'
import { type CommonOptions, common, dataDirectory } from '../options.ts'
import { output, print } from '../output.ts'
import { withNewGateway } from '../with-gateway.ts'

/** `gateway init`: creates a data directory with its default workspace and its first two keys. */
export const initCommand = () =>
  common(
    new Command('init').description('create the data directory and print its first keys, once'),
  ).action(init)

async function init(options: CommonOptions): Promise<void> {
  const { firstKeys } = await import('../../core/identity/workspaces.ts')
  const made = await withNewGateway(options, firstKeys)
  if (!made)
    throw conflict(`${dataDirectory(options)} has keys already; make more with gateway keys create`)
  output(options.json, made, printFirstKeys)
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
