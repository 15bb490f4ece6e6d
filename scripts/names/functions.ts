import { type AnyNode, parse } from 'acorn'

/** A function with a name of its own: a declaration, or a variable that holds a function. */
export interface NamedFunction {
  name: string
  /** The number of its parameters. */
  parameters: number
}

const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'bun' })

/** Lists the named functions of a TypeScript or JavaScript module. Methods are not counted. */
export function listFunctions(source: string): NamedFunction[] {
  const program = parse(transpiler.transformSync(source), {
    ecmaVersion: 'latest',
    sourceType: 'module',
  })
  const found: NamedFunction[] = []
  visit(program, node => {
    const named = toNamedFunction(node)
    if (named) found.push(named)
  })
  return found
}

function visit(node: AnyNode, see: (node: AnyNode) => void): void {
  see(node)
  for (const child of Object.values(node).flat()) if (isNode(child)) visit(child, see)
}

const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

function toNamedFunction(node: AnyNode): NamedFunction | undefined {
  if (node.type === 'FunctionDeclaration' && node.id) {
    return { name: node.id.name, parameters: node.params.length }
  }
  if (node.type !== 'VariableDeclarator' || node.id.type !== 'Identifier') return undefined
  const value = node.init
  const isFunction =
    value?.type === 'ArrowFunctionExpression' || value?.type === 'FunctionExpression'
  return isFunction ? { name: node.id.name, parameters: value.params.length } : undefined
}
