import { Argument, Command } from 'commander'
import { invalid } from '../../base/errors.ts'
import type { Config } from '../../config.ts'
import { getDataDirectory } from '../data-directory.ts'
import { addPlaceOptions, type CommonOptions, loadServedConfig } from '../options.ts'
import { print } from '../output.ts'
import { readServerUrl } from '../status-socket.ts'

/** Where an agent finds the gateway, and the model that it asks. */
export interface AgentTarget {
  /** The address of the gateway, without a path. */
  url: string
  model: string
}

/** A coding agent that works with a base URL, a key and a model alone. */
export interface Agent {
  title: string
  /** Its package at npm, and the version that `bun run agents` was run with. */
  package: string
  version: string
  /** The lines of shell that come before its start. The key is `$GATEWAY_KEY`. */
  prepare?: (target: AgentTarget) => string[]
  /** The command line that starts it. */
  start: (target: AgentTarget) => string
  /** What follows the start where nobody is there to answer it: it does `$TASK` and ends. */
  once: string
}

/** The model that an agent is shown with. */
export const DEFAULT_MODEL = 'openai/gpt-6-luna'

const OPENCODE = ({ url, model }: AgentTarget) => ({
  provider: {
    gateway: {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL: `${url}/api/v1`, apiKey: '{env:GATEWAY_KEY}' },
      models: { [model]: {} },
    },
  },
  model: `gateway/${model}`,
})

const PI = ({ url, model }: AgentTarget) => ({
  providers: {
    gateway: {
      ...{ baseUrl: `${url}/api/v1`, api: 'openai-completions', apiKey: 'GATEWAY_KEY' },
      models: [{ id: model }],
    },
  },
})

/** The agents by the word that names each: what the command prints and the page shows. */
export const AGENTS = {
  codex: {
    ...{ title: 'Codex', package: '@openai/codex', version: '0.171.0' },
    start: ({ url, model }) =>
      [
        `codex -c model='${model}' -c model_provider=gateway`,
        '-c model_providers.gateway.name=gateway',
        `-c model_providers.gateway.base_url='${url}/api/v1'`,
        '-c model_providers.gateway.env_key=GATEWAY_KEY',
        '-c model_providers.gateway.wire_api=responses',
      ].join(' \\\n  '),
    once: 'exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "$TASK"',
  },
  claude: {
    ...{ title: 'Claude Code', package: '@anthropic-ai/claude-code', version: '2.1.197' },
    prepare: ({ url, model }) => [
      `export ANTHROPIC_BASE_URL='${url}/api'`,
      'export ANTHROPIC_AUTH_TOKEN="$GATEWAY_KEY"',
      `export ANTHROPIC_MODEL='${model}' ANTHROPIC_DEFAULT_HAIKU_MODEL='${model}'`,
    ],
    start: () => 'claude',
    once: '-p "$TASK" --allowed-tools Bash',
  },
  'claude-bedrock': {
    ...{ title: 'Claude Code in Bedrock mode', package: '@anthropic-ai/claude-code' },
    version: '2.1.197',
    prepare: ({ url, model }) => [
      `export CLAUDE_CODE_USE_BEDROCK=1 ANTHROPIC_BEDROCK_BASE_URL='${url}' AWS_REGION=us-east-1`,
      'export AWS_BEARER_TOKEN_BEDROCK="$GATEWAY_KEY"',
      `export ANTHROPIC_MODEL='${model}' ANTHROPIC_DEFAULT_HAIKU_MODEL='${model}'`,
    ],
    start: () => 'claude',
    once: '-p "$TASK" --allowed-tools Bash',
  },
  opencode: {
    ...{ title: 'opencode', package: 'opencode-ai', version: '1.18.33' },
    prepare: target => [
      `export OPENCODE_CONFIG_CONTENT='${JSON.stringify(OPENCODE(target), null, 2)}'`,
    ],
    start: () => 'opencode',
    once: 'run "$TASK"',
  },
  qwen: {
    ...{ title: 'Qwen Code', package: '@qwen-code/qwen-code', version: '0.15.10' },
    prepare: ({ url, model }) => [
      `export OPENAI_BASE_URL='${url}/api/v1'`,
      'export OPENAI_API_KEY="$GATEWAY_KEY"',
      `export OPENAI_MODEL='${model}'`,
    ],
    start: () => 'qwen --auth-type openai',
    once: '--yolo "$TASK"',
  },
  gemini: {
    ...{ title: 'Gemini CLI', package: '@google/gemini-cli', version: '0.61.0' },
    prepare: ({ url }) => [
      `export GOOGLE_GEMINI_BASE_URL='${url}'`,
      'export GEMINI_API_KEY="$GATEWAY_KEY"',
      'mkdir -p ~/.gemini && cat > ~/.gemini/settings.json <<END',
      '{ "security": { "auth": { "selectedType": "gemini-api-key" } } }',
      'END',
    ],
    start: ({ model }) => `gemini -m '${model}'`,
    once: '--skip-trust --yolo -p "$TASK"',
  },
  cline: {
    ...{ title: 'Cline', package: 'cline', version: '3.0.65' },
    prepare: ({ url, model }) => [
      `cline auth -p openai -k "$GATEWAY_KEY" -b '${url}/api/v1' -m '${model}'`,
    ],
    start: () => 'cline',
    once: '"$TASK"',
  },
  continue: {
    ...{ title: 'Continue', package: '@continuedev/cli', version: '1.5.47' },
    prepare: ({ url, model }) => [
      "cat > ~/gateway-continue.yaml <<'END'",
      'name: gateway',
      'version: 1.0.0',
      'schema: v1',
      'models:',
      '  - name: gateway',
      '    provider: openai',
      `    model: ${model}`,
      `    apiBase: ${url}/api/v1`,
      '    apiKey: $' + '{{ secrets.GATEWAY_KEY }}',
      '    roles: [chat]',
      '    capabilities: [tool_use]',
      'END',
    ],
    start: () => 'cn --config ~/gateway-continue.yaml',
    once: '--auto -p "$TASK"',
  },
  pi: {
    ...{ title: 'pi', package: '@mariozechner/pi-coding-agent', version: '0.73.1' },
    prepare: target => [
      'export PI_CODING_AGENT_DIR=~/.pi/gateway',
      'mkdir -p "$PI_CODING_AGENT_DIR"',
      `cat > "$PI_CODING_AGENT_DIR/models.json" <<'END'`,
      JSON.stringify(PI(target), null, 2),
      'END',
    ],
    start: ({ model }) => `pi --provider gateway --model '${model}'`,
    once: '-p "$TASK"',
  },
  copilot: {
    ...{ title: 'Copilot CLI', package: '@github/copilot', version: '1.0.102' },
    prepare: ({ url, model }) => [
      `export COPILOT_PROVIDER_BASE_URL='${url}/api/v1'`,
      'export COPILOT_PROVIDER_API_KEY="$GATEWAY_KEY"',
      `export COPILOT_MODEL='${model}' COPILOT_OFFLINE=true`,
    ],
    start: () => 'copilot',
    once: '--allow-all-tools -p "$TASK"',
  },
} satisfies Record<string, Agent>

type AgentName = keyof typeof AGENTS

/** Writes the lines of shell that start an agent, with no key in them. */
export const renderBlock = (agent: Agent, target: AgentTarget): string =>
  [...(agent.prepare?.(target) ?? []), agent.start(target)].join('\n')

/** `gateway agent`: the lines of shell with which a coding agent asks this gateway. */
export const createAgentCommand = () =>
  addPlaceOptions(
    new Command('agent').description('print the lines that start a coding agent over this gateway'),
  )
    .addArgument(new Argument('<agent>', 'which').choices(Object.keys(AGENTS)))
    .option(
      '--model <model>',
      `the model that it asks, by its id (default_model of the config, else ${DEFAULT_MODEL})`,
    )
    .addHelpText('after', HELP)
    .action(printBlock)

const HELP = `
They hold no key: they read it from $GATEWAY_KEY. The address is that of the server that runs on the
data directory, or the one of the config. Nothing is sent and nothing is changed.`

async function printBlock(name: AgentName, options: CommonOptions & { model?: string }) {
  const { config } = await loadServedConfig(options, { withoutSecrets: true })
  const url = requirePlain('server.site_url', (await findUrl(options, config)).replace(/\/$/, ''))
  const model = requirePlain('--model', options.model ?? chooseModel(config))
  print(renderBlock(AGENTS[name], { url, model }))
}

// No agent works over the sandbox.
const chooseModel = ({ default_model }: Config): string =>
  default_model.startsWith('sandbox/') ? DEFAULT_MODEL : default_model

/** Requires that a shell takes a text as it is, within quotes and without. */
function requirePlain(name: string, text: string): string {
  if (/^[\w.,:/@~+%[\]-]+$/.test(text)) return text
  throw invalid(`${name}: expected letters, digits and .,:/@~+%[]-_ alone`, name)
}

/** Finds where clients reach this gateway, as its own links do. */
async function findUrl(options: CommonOptions, { server }: Config): Promise<string> {
  if (server.site_url !== undefined) return server.site_url
  const running = await readServerUrl(getDataDirectory(options))
  return running ?? `http://${server.host}:${server.port}`
}
