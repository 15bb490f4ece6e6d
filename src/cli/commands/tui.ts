import { Command } from 'commander'
import { addPlaceOptions, type CommonOptions } from '../options.ts'

/** `gateway tui`: the operator’s seat, on a terminal. Ink and React are loaded only here. */
export const createTuiCommand = () =>
  addPlaceOptions(new Command('tui').description('watch and run a gateway on this terminal, live'))
    .option(
      '--url <url>',
      'a gateway elsewhere; its management key is in GATEWAY_KEY, or asked for',
    )
    .action(showTui)

async function showTui(options: CommonOptions & { url?: string }): Promise<void> {
  const { invalid } = await import('../../base/errors.ts')
  if (!process.stdin.isTTY || !process.stdout.isTTY)
    throw invalid('gateway tui needs a terminal: gateway watch prints the same without one')
  const source = await openSource(options)
  const { startTui } = await import('../tui/start.tsx')
  await startTui(source)
  // Work that is still on its way, as to a gateway elsewhere, does not hold up the exit.
  process.exit(0)
}

async function openSource({ url, ...options }: CommonOptions & { url?: string }) {
  if (url === undefined) {
    const { openLocalSource } = await import('../tui/source/local.ts')
    const source = openLocalSource(options)
    // What is wrong with the directory or the config is said before the screen changes.
    await source.listCalls(1)
    return source
  }
  const { openRemote } = await import('../remote.ts')
  const { readKey } = await import('../feed.ts')
  const { openRemoteSource } = await import('../tui/source/remote.ts')
  return openRemoteSource(await openRemote(url, await readKey()))
}
