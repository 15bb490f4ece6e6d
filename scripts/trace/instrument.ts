import { type AnyNode, type Class, type Function as FunctionNode, parse } from 'acorn'

/** A file whose functions are traced. */
export interface WatchedFile {
  /** Its number in the trace. */
  file: number
  /** Its functions whose duration is traced. */
  spans: readonly string[]
}

type TextRange = Pick<AnyNode, 'start' | 'end'>

/** A text to insert into a file, and its position. */
interface Insertion {
  at: number
  text: string
}

/**
 * Inserts `__enter(file, name)` at the start of every function of a module. The body of a function
 * in `spans` is run by `__span(file, name, run)` instead. Also returns which of those functions the
 * module has.
 */
export function instrument(
  source: string,
  watched: WatchedFile,
): { text: string; spans: string[] } {
  const spans: string[] = []
  const insertions: Insertion[] = []
  const onNode = (node: AnyNode, name: string) => {
    if (isClass(node)) insertions.push(...instrumentClass(node, name, watched))
    if (!isFunction(node)) return
    if (watched.spans.includes(name)) spans.push(name)
    insertions.push(...instrumentFunction(node, name, watched))
  }
  visit(parse(source, { ecmaVersion: 'latest', sourceType: 'module' }), '', onNode)
  return { text: applyInsertions(source, insertions), spans }
}

/** Visits every node with the name that it has or inherits. */
function visit(
  node: AnyNode,
  inherited: string,
  onNode: (node: AnyNode, name: string) => void,
): void {
  const name = 'id' in node && node.id?.type === 'Identifier' ? node.id.name : inherited
  onNode(node, name)
  const childName = getInheritedName(node, name)
  for (const child of Object.values(node).flat()) if (isNode(child)) visit(child, childName, onNode)
}

const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

const FUNCTIONS = ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']
const CLASSES = ['ClassDeclaration', 'ClassExpression']

const isFunction = (node: AnyNode): node is AnyNode & FunctionNode => FUNCTIONS.includes(node.type)
const isClass = (node: AnyNode): node is AnyNode & Class => CLASSES.includes(node.type)

/** Returns the name for a function that is a child of this node and has none of its own. */
function getInheritedName(node: AnyNode, name: string): string {
  if (node.type === 'VariableDeclarator') return name
  if (node.type === 'ClassBody') return name
  if (isClass(node)) return name
  if (node.type === 'MethodDefinition' && node.kind === 'constructor') return `new ${name}`
  if (node.type === 'AssignmentExpression') return getName(node.left)
  return 'key' in node ? getName(node.key) : ''
}

function getName(node: AnyNode): string {
  if (node.type === 'Identifier') return node.name
  if (node.type === 'PrivateIdentifier') return `#${node.name}`
  return node.type === 'MemberExpression' ? getName(node.property) : ''
}

function instrumentFunction(
  node: FunctionNode,
  name: string,
  { file, spans }: WatchedFile,
): Insertion[] {
  const what = `${file}, ${JSON.stringify(name)}`
  if (!spans.includes(name)) return insertAtStart(node, `__enter(${what})`)
  if (node.generator) throw new Error(`${name} is a generator: how long it runs is not known`)
  return wrapBody(node, `__span(${what}, ${node.async ? 'async ' : ''}() => `)
}

function insertAtStart({ body }: FunctionNode, enter: string): Insertion[] {
  if (body.type === 'BlockStatement') return [{ at: body.start + 1, text: ` ${enter};` }]
  return enclose(body, `(${enter}, `, ')')
}

function wrapBody({ body }: FunctionNode, run: string): Insertion[] {
  if (body.type !== 'BlockStatement') return enclose(body, `${run}(`, '))')
  const within = { start: body.start + 1, end: body.end - 1 }
  return enclose(within, ` return ${run}{`, '});')
}

function enclose(range: TextRange, before: string, after: string): Insertion[] {
  return [
    { at: range.start, text: before },
    { at: range.end, text: after },
  ]
}

// Fields of a class are set by code in its file, even without an explicit constructor.
function instrumentClass(
  { body, superClass }: Class,
  name: string,
  { file }: WatchedFile,
): Insertion[] {
  const members = body.body
  if (members.some(one => one.type === 'MethodDefinition' && one.kind === 'constructor')) return []
  if (!members.some(one => one.type === 'PropertyDefinition' && !one.static)) return []
  const enter = `__enter(${file}, ${JSON.stringify(`new ${name}`)});`
  const signature = superClass ? `(...args) { ${enter} super(...args); }` : `() { ${enter} }`
  return [{ at: body.start + 1, text: ` constructor${signature}` }]
}

function applyInsertions(source: string, insertions: Insertion[]): string {
  let [text, from] = ['', 0]
  for (const { at, text: more } of insertions.toSorted((a, b) => a.at - b.at)) {
    text += source.slice(from, at) + more
    from = at
  }
  return text + source.slice(from)
}
