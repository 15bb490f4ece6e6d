import { Argument, Command, Option } from 'commander'
import { invalid } from '../../core/errors.ts'
import { getDataDirectory } from '../data-directory.ts'
import { addPlaceOptions, type CommonOptions, loadConfig } from '../options.ts'
import { print } from '../output.ts'
import { readServerUrl } from '../status-socket.ts'
import { AGENTS, type AgentName, DEFAULT_MODEL, renderBlock } from './agent/agents.data.ts'

/** `gateway agent`: the lines of shell with which a coding agent asks this gateway. */
export const createAgentCommand = () =>
  addPlaceOptions(
    new Command('agent').description('print the lines that start a coding agent over this gateway'),
  )
    .addArgument(new Argument('<agent>', 'which').choices(Object.keys(AGENTS)))
    .addOption(
      new Option('--model <model>', 'the model that it asks, by its id').default(DEFAULT_MODEL),
    )
    .addHelpText('after', HELP)
    .action(printBlock)

const HELP = `
They hold no key: they read it from $GATEWAY_KEY. The address is that of the server that runs on the
data directory, or the one of the config. Nothing is sent and nothing is changed.`

async function printBlock(name: AgentName, options: CommonOptions & { model: string }) {
  const url = requirePlain('server.site_url', (await findUrl(options)).replace(/\/$/, ''))
  print(renderBlock(AGENTS[name], { url, model: requirePlain('--model', options.model) }))
}

/** Requires that a shell takes a text as it is, within quotes and without. */
function requirePlain(name: string, text: string): string {
  if (/^[\w.,:/@~+%[\]-]+$/.test(text)) return text
  throw invalid(`${name}: expected letters, digits and .,:/@~+%[]-_ alone`, name)
}

/** Finds where clients reach this gateway, as its own links do. */
async function findUrl(options: CommonOptions): Promise<string> {
  const { server } = (await loadConfig(options)).config
  if (server.site_url !== undefined) return server.site_url
  const running = await readServerUrl(getDataDirectory(options))
  return running ?? `http://${server.host}:${server.port}`
}
