import type {
  ReceivedRequest,
  ScriptedAnswer,
  ScriptedToolCall,
} from '../../test/support/fake-providers/fake-provider.ts'

/** What an agent is asked to do; what the scripted model says when all of it is done. */
export const TASK = 'Write the files one.txt, two.txt and three.txt'
export const DONE = 'All of the steps are done'

/** The name of the MCP server, of its tool, and what the tool answers. */
export const MCP = { server: 'steps', tool: 'note', answer: 'the-note-is-taken' }

/** Each needs the one before it, and prints what its own text does not have. */
const COMMANDS = [
  'printf one > one.txt && printf step-%d-done 1',
  'cat one.txt && printf two > two.txt && printf step-%d-done 2',
  'cat one.txt two.txt > three.txt && printf step-%d-done 3',
]

/** The file that is there when each command was run, and its content. */
export const PROOF = { file: 'three.txt', content: 'onetwo' }

/** The tool by which each agent runs commands, and the input that it takes. */
const SHELLS: Record<string, (command: string) => object> = {
  exec_command: cmd => ({ cmd }),
  Bash: command => ({ command, description: 'A step' }),
  bash: command => ({ command, description: 'A step' }),
  run_shell_command: command => ({ command, is_background: false, description: 'A step' }),
  run_commands: command => ({ commands: [command] }),
}

/** The tool of Codex over OpenAI's newest models: JavaScript that calls all others. */
const SCRIPTS = 'functions__exec'
const MCP_TOOL = `mcp__${MCP.server}__${MCP.tool}`

/** In requests. An agent that gets nowhere is told to stop. */
const MOST = 20

/** Creates the model of one run: it calls a tool for each step, until it has read that all are done. */
export function createModel(usesMcp: boolean): (request: ReceivedRequest) => ScriptedAnswer {
  let requests = 0
  return ({ tools, results }) => {
    const shell = tools.find(name => name in SHELLS || name === SCRIPTS)
    requests += 1
    // Agents also ask for a title, without tools.
    if (shell === undefined) return { text: 'Three files', finish: 'stop' }
    if (requests > MOST) return { text: 'It gets nowhere', finish: 'stop' }
    const heard = results.map(({ text }) => text).join('\n')
    const command = COMMANDS.find((_, i) => !heard.includes(`step-${i + 1}-done`))
    const isNoted = !usesMcp || heard.includes(MCP.answer)
    if (command === undefined && isNoted) return { text: DONE, finish: 'stop' }
    const call = command === undefined ? callMcp(shell, tools) : callShell(shell, command)
    return { calls: [{ id: `call_${requests}`, ...call }], finish: 'tool_calls' }
  }
}

type Called = Omit<ScriptedToolCall, 'id'>

const callShell = (shell: string, command: string): Called =>
  shell === SCRIPTS
    ? runScript(`text(await tools.exec_command(${JSON.stringify({ cmd: command })}))`)
    : { name: shell, input: JSON.stringify(SHELLS[shell]?.(command)) }

const callMcp = (shell: string, tools: string[]): Called =>
  shell === SCRIPTS
    ? runScript(`text(await tools.${MCP_TOOL}({}))`)
    : { name: tools.find(name => name === MCP_TOOL) ?? 'none', input: '{}' }

function runScript(input: string): Called {
  const [namespace = '', name = ''] = SCRIPTS.split('__')
  return { namespace, name, isCustom: true, input }
}
