import { isObject, type Json, readObjects, readString } from '../../base/json.ts'
import { type Attribute, findAttribute, type ResourceType } from './attributes.ts'
import { parsePath, type ScimFilter } from './filter.ts'
import { type ResolvedPath, resolvePath, tryResolvePath } from './match.ts'
import { refused } from './refusal.ts'
import {
  checkLength,
  isStored,
  toStoredSingle,
  toStoredValue,
  validateResource,
} from './resource.ts'

/** One operation of a patch (RFC 7644, 3.5.2). */
interface Operation {
  op: 'add' | 'remove' | 'replace'
  path: string | undefined
  value: unknown
}

const PATCH_OP = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'

/** Identity providers send a few at a time. */
const MAX_OPERATIONS = 1_000

/** Parses the operations of a body. Throws 400 `invalidSyntax` for a body that is no PatchOp. */
export function parseOperations(body: unknown): Operation[] {
  const schemas = isObject(body) ? body.schemas : undefined
  if (!isObject(body) || !Array.isArray(schemas) || !schemas.includes(PATCH_OP))
    throw refused('invalidSyntax', `schemas: expected ${PATCH_OP} among them`)
  const [, operations] =
    Object.entries(body).find(([name]) => name.toLowerCase() === 'operations') ?? []
  if (!Array.isArray(operations) || operations.length === 0)
    throw refused('invalidSyntax', 'Operations: expected a list of at least one')
  if (operations.length > MAX_OPERATIONS)
    throw refused('invalidSyntax', `Operations: expected at most ${MAX_OPERATIONS}`)
  return operations.map(parseOperation)
}

// Entra ID writes "Add" and "Replace".
function parseOperation(operation: unknown, i: number): Operation {
  const { op, path, value }: Json = isObject(operation) ? operation : {}
  const knownOp = (['add', 'remove', 'replace'] as const).find(
    candidate => typeof op === 'string' && op.toLowerCase() === candidate,
  )
  if (!knownOp)
    throw refused('invalidSyntax', `Operations.${i}.op: expected add, remove or replace`)
  if (path !== undefined && path !== null && typeof path !== 'string')
    throw refused('invalidPath', `Operations.${i}.path: expected a text`)
  if (knownOp !== 'remove' && value === undefined)
    throw refused('invalidValue', `Operations.${i}.value: expected a value`)
  return { op: knownOp, path: path || undefined, value }
}

/**
 * Applies the operations to a copy of the resource, all or none. Only names of the schema are ever
 * written. Throws 400: `invalidPath`, `invalidValue`, `noTarget`, and `mutability` for a read-only
 * attribute.
 */
export function applyPatch(type: ResourceType, resource: Json, operations: Operation[]): Json {
  const draft = structuredClone(resource)
  for (const { op, path, value } of operations) {
    if (path === undefined) applyWhole(type, draft, { op, value })
    else applyOperation(type, draft, { op, value, target: resolveWritablePath(type, path) })
  }
  return validateResource(type, draft)
}

/** What an operation does to a value, apart from where. */
type ValueChange = Pick<Operation, 'op' | 'value'>

/** An operation whose path is resolved. */
interface ResolvedOperation extends ValueChange {
  target: ResolvedPath
}

/**
 * Applies an operation without a path, whose value names the attributes. Okta repeats the id there,
 * which is no change.
 */
function applyWhole(type: ResourceType, draft: Json, { op, value }: ValueChange): void {
  if (op === 'remove') throw refused('noTarget', 'path: expected what to remove')
  if (!isObject(value))
    throw refused('invalidValue', 'value: expected an object where no path is given')
  for (const [path, member] of Object.entries(value)) {
    const target = tryResolvePath(type, path)
    if (target && target.attribute?.mutability !== 'readOnly')
      applyOperation(type, draft, { op, value: member, target })
  }
}

function resolveWritablePath(type: ResourceType, path: string): ResolvedPath {
  const target = resolvePath(type, parsePath(path))
  if (!target) throw refused('invalidPath', 'path: expected an attribute of the schema')
  if (
    [target.attribute, target.subAttribute].some(attribute => attribute?.mutability === 'readOnly')
  )
    throw refused('mutability', `${target.attribute?.name} may not be written`)
  return target
}

function applyOperation(type: ResourceType, draft: Json, operation: ResolvedOperation): void {
  const { attribute, extension } = operation.target
  if (!attribute) applyToExtension(type, draft, extension ?? '', operation)
  else if (isStored(attribute)) applyToAttribute(draft, attribute, operation)
}

function applyToAttribute(draft: Json, attribute: Attribute, operation: ResolvedOperation): void {
  const { extension } = operation.target
  const holder = extension === null ? draft : ensureObject(draft, extension)
  // Null means no value (RFC 7643, 2.5).
  const change = operation.value === null ? { ...operation, op: 'remove' as const } : operation
  if (attribute.multiValued) applyToList(holder, attribute, change)
  else applyToSingle(holder, attribute, change)
  if (extension !== null && Object.keys(holder).length === 0) delete draft[extension]
}

function applyToExtension(
  type: ResourceType,
  draft: Json,
  extension: string,
  { op, value }: ValueChange,
): void {
  if (op === 'remove' || value === null) delete draft[extension]
  else if (!isObject(value)) throw refused('invalidValue', `${extension}: expected an object`)
  else
    for (const [name, member] of Object.entries(value))
      applyWhole(type, draft, { op, value: { [`${extension}:${name}`]: member } })
}

function applyToSingle(
  holder: Json,
  attribute: Attribute,
  { op, value, target: { subAttribute } }: ResolvedOperation,
): void {
  if (subAttribute) {
    const inner = ensureObject(holder, attribute.name)
    assign(inner, subAttribute, op === 'remove' ? undefined : toStoredSingle(subAttribute, value))
    if (Object.keys(inner).length === 0) delete holder[attribute.name]
    return
  }
  const before = holder[attribute.name]
  const after = op === 'remove' ? undefined : (toStoredSingle(attribute, value) ?? before)
  assign(holder, attribute, isObject(before) && isObject(after) ? { ...before, ...after } : after)
}

function applyToList(holder: Json, attribute: Attribute, operation: ResolvedOperation): void {
  const before = readList(holder[attribute.name])
  const after =
    operation.op === 'remove'
      ? removeValues(before, attribute, operation)
      : writeValues(before, attribute, operation)
  checkLength(attribute, after)
  assign(holder, attribute, after.length > 0 ? after : undefined)
}

/**
 * The identities of the values of a list that a patch changes in its place: a group has very many
 * members, and a patch many operations, of which each would read all of them otherwise.
 */
const IDENTITIES = new WeakMap<Json[], Set<string>>()

const readList = (stored: unknown): Json[] =>
  IDENTITIES.has(stored as Json[]) ? (stored as Json[]) : readObjects(stored)

function findIdentities(values: Json[]): Set<string> {
  const known = IDENTITIES.get(values) ?? new Set(values.map(renderIdentity))
  IDENTITIES.set(values, known)
  return known
}

function removeValues(
  before: Json[],
  attribute: Attribute,
  { value, target: { matchesValue, filter, subAttribute } }: ResolvedOperation,
): Json[] {
  if (subAttribute)
    return before
      .map(element =>
        matchesValue?.(element) === false ? element : omitMember(element, subAttribute.name),
      )
      .filter(element => Object.keys(element).length > 0)
  const member = filter && readMember(attribute, filter)
  if (member !== null) return removeMember(before, member)
  if (matchesValue) return before.filter(element => !matchesValue(element))
  // Azure AD removes members by `path: "members"` and a list of them in `value`.
  if (value === undefined || value === null) return []
  const removed = new Set(readObjects(toStoredValue(attribute, value)).map(renderIdentity))
  return before.filter(element => !removed.has(renderIdentity(element)))
}

/** Returns the id in a filter that selects one member of a group, of which nothing else is kept. */
const readMember = ({ name }: Attribute, filter: ScimFilter): string | null =>
  name === 'members' && filter.op === 'eq' && filter.path.name.toLowerCase() === 'value'
    ? readString(filter.value)
    : null

function removeMember(members: Json[], id: string): Json[] {
  if (findIdentities(members).delete(renderIdentity({ value: id })))
    members.splice(
      members.findIndex(({ value }) => value === id),
      1,
    )
  return members
}

function writeValues(before: Json[], attribute: Attribute, operation: ResolvedOperation): Json[] {
  const { op, value, target } = operation
  if (target.matchesValue || target.subAttribute)
    return changeMatching(before, attribute, operation)
  const added = readObjects(toStoredValue(attribute, value))
  if (op === 'replace') return removeDuplicates(added)
  return keepLastPrimary(addValues(before, added), added)
}

function addValues(before: Json[], added: Json[]): Json[] {
  const values = IDENTITIES.has(before) ? before : removeDuplicates(before)
  const identities = findIdentities(values)
  for (const value of added) {
    const identity = renderIdentity(value)
    if (!identities.has(identity)) values.push(value)
    identities.add(identity)
  }
  return values
}

function changeMatching(
  before: Json[],
  attribute: Attribute,
  { op, value, target }: ResolvedOperation,
): Json[] {
  const { matchesValue, subAttribute } = target
  const fields = subAttribute
    ? { [subAttribute.name]: toStoredSingle(subAttribute, value) }
    : (readObjects([toStoredSingle(attribute, value)])[0] ?? {})
  const matching = new Set(matchesValue ? before.filter(matchesValue) : before)
  if (matching.size === 0) return [...before, { ...buildFromFilter(target, attribute), ...fields }]
  const after = before.map(element => {
    if (!matching.has(element)) return element
    return op === 'replace' && !subAttribute ? fields : { ...element, ...fields }
  })
  return keepLastPrimary(
    after,
    after.filter((_, i) => matching.has(before[i] ?? {})),
  )
}

/**
 * Builds the value that a filter describes when no value matches it. Entra ID writes a first work
 * address as a replacement of `emails[type eq "work"].value`. Throws 400 `noTarget` when the filter
 * describes no value, or when the whole value should be changed.
 */
function buildFromFilter({ filter, subAttribute }: ResolvedPath, attribute: Attribute): Json {
  const fields = subAttribute
    ? filter === null
      ? {}
      : readEqualities(filter, attribute)
    : undefined
  if (!fields) throw refused('noTarget', 'path: expected a value that is there')
  return fields
}

function readEqualities(filter: ScimFilter, attribute: Attribute): Json | undefined {
  if (filter.op === 'and') {
    const all = filter.filters.map(part => readEqualities(part, attribute))
    return all.every(fields => fields !== undefined) ? Object.assign({}, ...all) : undefined
  }
  const sub =
    filter.op === 'eq' ? findAttribute(attribute.subAttributes, filter.path.name) : undefined
  return sub && filter.op === 'eq' && isStored(sub)
    ? { [sub.name]: toStoredSingle(sub, filter.value) }
    : undefined
}

// A new primary value makes the others non-primary (RFC 7644, 3.5.2).
function keepLastPrimary(values: Json[], changed: Json[]): Json[] {
  const preferred = changed.findLast(value => value.primary === true)
  if (!preferred) return values
  return values.map(value =>
    value.primary === true && renderIdentity(value) !== renderIdentity(preferred)
      ? { ...value, primary: false }
      : value,
  )
}

function removeDuplicates(values: Json[]): Json[] {
  const seen = new Set<string>()
  return values.filter(value => !seen.has(renderIdentity(value)) && seen.add(renderIdentity(value)))
}

// The order of an object's members does not matter.
const renderIdentity = (value: Json): string =>
  JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))

const omitMember = (value: Json, name: string): Json =>
  Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))

function ensureObject(holder: Json, name: string): Json {
  const found = holder[name]
  if (isObject(found)) return found
  const created: Json = {}
  holder[name] = created
  return created
}

function assign(holder: Json, { name }: Attribute, value: unknown): void {
  if (value === undefined) delete holder[name]
  else holder[name] = value
}
