import type { Json } from '../../../kernel/json.ts'
import { readString } from '../../../kernel/json.ts'
import type { FunctionTool } from '../../../language/tool.ts'

/**
 * The tools of Anthropic's API that its clients run themselves, and that have a schema which only
 * Claude knows (Anthropic, "Tool use"). Any other model is told it, and calls the tool by its name.
 */
const KINDS: { type: RegExp; name: string; build(tool: Json): Definition }[] = [
  {
    type: /^bash_\d{8}$/,
    name: 'bash',
    build: () =>
      define('Runs a command in a shell of bash that stays open.', {
        command: text('The command; none to restart'),
        restart: { type: 'boolean', description: 'Whether to begin a new shell' },
      }),
  },
  {
    type: /^text_editor_\d{8}$/,
    name: 'str_replace_based_edit_tool',
    build: () =>
      define(
        'Views, creates and edits text files.',
        EDITING,
        ['command', 'path'],
        [...['view', 'create', 'str_replace', 'insert']],
      ),
  },
  {
    type: /^memory_\d{8}$/,
    name: 'memory',
    build: () =>
      define(
        'Files that stay from one conversation to the next, all of them under /memories. Look there ' +
          'before anything else.',
        {
          ...EDITING,
          old_path: text('The path of a file to rename'),
          new_path: text('Its new path'),
        },
        ['command'],
        ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'],
      ),
  },
  {
    type: /^computer_\d{8}$/,
    name: 'computer',
    build: ({ display_width_px: width, display_height_px: height }) =>
      define(`Uses a computer with a screen of ${width} × ${height} points.`, POINTING, ['action']),
  },
]

type Definition = Pick<FunctionTool, 'description' | 'parameters'>

const text = (description: string): Json => ({ type: 'string', description })

const define = (
  description: string,
  properties: Record<string, Json>,
  required: string[] = [],
  commands?: string[],
): Definition => ({
  description,
  parameters: {
    type: 'object',
    properties: commands
      ? { command: { type: 'string', enum: commands }, ...properties }
      : properties,
    ...(required.length > 0 ? { required } : {}),
  },
})

const EDITING: Record<string, Json> = {
  path: text('The whole path of the file or directory'),
  file_text: text('The text of a file to create'),
  old_str: text('The text to replace, which must be there once'),
  new_str: text('The text in its place, or to insert'),
  insert_str: text('The text to insert'),
  insert_text: text('The text to insert'),
  insert_line: { type: 'integer', description: 'The line after which to insert; 0 for the top' },
  view_range: {
    type: 'array',
    items: { type: 'integer' },
    description: 'The first and the last line to view; -1 for the end',
  },
}

const PLACE: Json = { type: 'array', items: { type: 'integer' } }

const POINTING: Record<string, Json> = {
  action: {
    type: 'string',
    enum: [
      ...['key', 'type', 'mouse_move', 'left_click', 'left_click_drag', 'right_click'],
      ...['middle_click', 'double_click', 'triple_click', 'screenshot', 'cursor_position'],
      ...['left_mouse_down', 'left_mouse_up', 'scroll', 'hold_key', 'wait', 'zoom'],
    ],
  },
  coordinate: { ...PLACE, description: 'Where: from the left, from the top' },
  start_coordinate: { ...PLACE, description: 'Where a drag begins' },
  text: text('What to type, or the keys to press'),
  scroll_direction: { type: 'string', enum: ['up', 'down', 'left', 'right'] },
  scroll_amount: { type: 'integer', description: 'How many steps to scroll' },
  duration: { type: 'number', description: 'The seconds to wait or to hold' },
  region: { ...PLACE, description: 'What to zoom into: two corners' },
}

/** Returns the function in place of such a tool; null for one that only a provider could run. */
export function toNamedFunction(tool: Json): FunctionTool[] | null {
  const kind = KINDS.find(({ type }) => type.test(String(tool.type)))
  if (!kind) return null
  return [{ type: 'function', name: readString(tool.name) ?? kind.name, ...kind.build(tool) }]
}
