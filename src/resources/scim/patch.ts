import { isObject, type Json, readObjects, readString } from '../../base/json.ts'
import { type Attribute, findAttribute, type ResourceType } from './attributes.ts'
import { countComparisons, MOST_COMPARISONS, parsePath, type ScimFilter } from './filter.ts'
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
 * written. Throws 400: `invalidPath`, `invalidValue`, `noTarget`, `tooMany` where that takes too
 * long, and `mutability` for a read-only attribute.
 */
export function applyPatch(type: ResourceType, resource: Json, operations: Operation[]): Json {
  const { members, ...rest } = resource
  const patch = { type, draft: structuredClone(rest), members: readMembers(members), reads: 0 }
  for (const { op, path, value } of operations) {
    if (path === undefined) applyWhole(patch, { op, value })
    else applyOperation(patch, { op, value, target: resolveWritablePath(patch, path) })
  }
  const left = Array.from(patch.members, value => ({ value }))
  return validateResource(type, left.length === 0 ? patch.draft : { ...patch.draft, members: left })
}

/** A patch that is being applied. */
interface Patch {
  type: ResourceType
  draft: Json
  /**
   * The ids of a group's members, of which nothing else is kept. There are very many, and many
   * operations, of which none may read all of them only to find one.
   */
  members: Set<string>
  /** How many comparisons it has taken so far. */
  reads: number
}

const readMembers = (members: unknown): Set<string> =>
  new Set(readObjects(members).flatMap(({ value }) => readString(value) ?? []))

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
function applyWhole(patch: Patch, { op, value }: ValueChange): void {
  if (op === 'remove') throw refused('noTarget', 'path: expected what to remove')
  if (!isObject(value))
    throw refused('invalidValue', 'value: expected an object where no path is given')
  for (const [path, member] of Object.entries(value)) {
    countReads(patch, path.length / CHARACTERS_PER_READ)
    const target = tryResolvePath(patch.type, path)
    if (target && target.attribute?.mutability !== 'readOnly')
      applyOperation(patch, { op, value: member, target })
  }
}

function resolveWritablePath(patch: Patch, path: string): ResolvedPath {
  countReads(patch, path.length / CHARACTERS_PER_READ)
  const target = resolvePath(patch.type, parsePath(path))
  if (!target) throw refused('invalidPath', 'path: expected an attribute of the schema')
  if (
    [target.attribute, target.subAttribute].some(attribute => attribute?.mutability === 'readOnly')
  )
    throw refused('mutability', `${target.attribute?.name} may not be written`)
  return target
}

function applyOperation(patch: Patch, operation: ResolvedOperation): void {
  const { attribute, extension } = operation.target
  if (!attribute) applyToExtension(patch, extension ?? '', operation)
  else if (isStored(attribute)) applyToAttribute(patch, attribute, operation)
}

function applyToAttribute(patch: Patch, attribute: Attribute, operation: ResolvedOperation): void {
  const { draft } = patch
  const { extension } = operation.target
  // Null means no value (RFC 7643, 2.5).
  const change = operation.value === null ? { ...operation, op: 'remove' as const } : operation
  const holder = extension === null ? draft : ensureObject(draft, extension)
  if (attribute.name === 'members') applyToMembers(patch, attribute, change)
  else if (attribute.multiValued) applyToList(patch, { holder, attribute }, change)
  else applyToSingle(holder, attribute, change)
  if (extension !== null && Object.keys(holder).length === 0) delete draft[extension]
}

function applyToExtension(patch: Patch, extension: string, { op, value }: ValueChange): void {
  if (op === 'remove' || value === null) delete patch.draft[extension]
  else if (!isObject(value)) throw refused('invalidValue', `${extension}: expected an object`)
  else
    for (const [name, member] of Object.entries(value))
      applyWhole(patch, { op, value: { [`${extension}:${name}`]: member } })
}

function applyToMembers(patch: Patch, attribute: Attribute, operation: ResolvedOperation): void {
  const { matchesValue, subAttribute } = operation.target
  if (subAttribute && !isStored(subAttribute)) return
  if (matchesValue || subAttribute) changeMatchingMembers(patch, attribute, operation)
  else changeMembers(patch.members, attribute, operation)
}

function changeMembers(members: Set<string>, attribute: Attribute, { op, value }: ValueChange) {
  // Azure AD removes members by `path: "members"` and a list of them in `value`.
  const ids = readMembers(toStoredValue(attribute, value))
  if (op === 'replace' || (op === 'remove' && (value === undefined || value === null)))
    members.clear()
  for (const id of ids)
    if (op === 'remove') members.delete(id)
    else members.add(id)
}

function changeMatchingMembers(
  patch: Patch,
  attribute: Attribute,
  { op, value, target }: ResolvedOperation,
): void {
  const { subAttribute } = target
  const matching = selectMembers(patch, target)
  if (op !== 'remove' && matching.length === 0) buildFromFilter(target, attribute)
  for (const id of matching) patch.members.delete(id)
  if (op === 'remove') return
  const changed = subAttribute
    ? { [subAttribute.name]: toStoredSingle(subAttribute, value) }
    : toStoredSingle(attribute, value)
  for (const id of readMembers([changed])) patch.members.add(id)
}

/** Selects members by a filter, of one by its id without reading the others. */
function selectMembers(patch: Patch, { filter, matchesValue }: ResolvedPath): string[] {
  const { members } = patch
  const ids = filter && listIds(filter)
  if (ids) return ids.filter(id => members.has(id))
  countReads(patch, members.size * (filter ? countComparisons(filter) : 1))
  return [...members].filter(value => matchesValue?.({ value }) !== false)
}

/** Returns the ids in a filter that selects nothing but members with those ids; null for others. */
function listIds(filter: ScimFilter): string[] | null {
  if (filter.op === 'or') {
    const all = filter.filters.map(listIds)
    return all.every(ids => ids !== null) ? all.flat() : null
  }
  return filter.op === 'eq' &&
    filter.path.name.toLowerCase() === 'value' &&
    typeof filter.value === 'string'
    ? [filter.value]
    : null
}

/** Throws 400 `tooMany` when a patch has taken too many comparisons. */
function countReads(patch: Patch, reads: number): void {
  patch.reads += reads
  if (patch.reads > MOST_COMPARISONS)
    throw refused('tooMany', 'Operations: expected fewer that read all values, or shorter paths')
}

/** Parsing takes as long as a comparison for so many characters. */
const CHARACTERS_PER_READ = 4

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

/** A list of values, and whose it is. */
interface ListPlace {
  holder: Json
  attribute: Attribute
}

function applyToList(
  patch: Patch,
  { holder, attribute }: ListPlace,
  operation: ResolvedOperation,
): void {
  const before = readObjects(holder[attribute.name])
  countListReads(patch, before, operation)
  const after =
    operation.op === 'remove'
      ? removeValues(before, attribute, operation)
      : writeValues(before, attribute, operation)
  checkLength(attribute, after)
  assign(holder, attribute, after.length > 0 ? after : undefined)
}

/** What the comparison of a whole value takes, in comparisons of a filter. */
const IDENTITY_READS = 10

function countListReads(
  patch: Patch,
  before: Json[],
  { value, target: { filter } }: ResolvedOperation,
): void {
  const compared = before.length + (Array.isArray(value) ? value.length : 1)
  const reads = filter ? before.length * countComparisons(filter) : compared * IDENTITY_READS
  countReads(patch, reads)
}

function removeValues(
  before: Json[],
  attribute: Attribute,
  { value, target: { matchesValue, subAttribute } }: ResolvedOperation,
): Json[] {
  if (subAttribute)
    return before
      .map(element =>
        matchesValue?.(element) === false ? element : omitMember(element, subAttribute.name),
      )
      .filter(element => Object.keys(element).length > 0)
  if (matchesValue) return before.filter(element => !matchesValue(element))
  if (value === undefined || value === null) return []
  const removed = new Set(readObjects(toStoredValue(attribute, value)).map(renderIdentity))
  return before.filter(element => !removed.has(renderIdentity(element)))
}

function writeValues(before: Json[], attribute: Attribute, operation: ResolvedOperation): Json[] {
  const { op, value, target } = operation
  if (target.matchesValue || target.subAttribute)
    return changeMatching(before, attribute, operation)
  const added = readObjects(toStoredValue(attribute, value))
  if (op === 'replace') return removeDuplicates(added)
  return keepLastPrimary(removeDuplicates([...before, ...added]), added)
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
  const known = new Map<string, Json>()
  for (const value of values) {
    const identity = renderIdentity(value)
    if (!known.has(identity)) known.set(identity, value)
  }
  return [...known.values()]
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
