// SPDX-License-Identifier: Apache-2.0
// What Cay runs in a page: it lives in a world of its own, so the page can neither see nor change it.
//
// snapshot() says in lines what a person would see, a line for each control, heading and piece of text:
//
//	- heading 1 "Orders"
//	- link "Next" [ref_4]
//	- textbox "Name" [ref_5] = "Ada"
//
// An element keeps its number for as long as its page lives, so snapshots can be compared.  Texts of the
// page are quoted as JSON has it, and cannot look like a line.
(() => {
  const MAX_NAME = 80, MAX_TEXT = 300, MAX_NODES = 200000;
  if (globalThis.cayPage)
    return; // of a request at the same time
  const elements = new Map(), numbers = new WeakMap();
  // numbers begin elsewhere in each document, so a reference of another one very rarely names anything here
  let last = 1000 + Math.floor(Math.random() * 899000);

  // Members that a form's controls can hide by their names, also in this world.
  const member = (of, name) => {
    const d = Object.getOwnPropertyDescriptor(of.prototype, name);
    return d.get ? e => d.get.call(e) : (e, ...rest) => d.value.apply(e, rest);
  };
  const attributeOf = member(Element, 'getAttribute'), hasAttribute = member(Element, 'hasAttribute'), tagOf = member(Element, 'tagName');
  const shadowOf = member(Element, 'shadowRoot'), boxOf = member(Element, 'getBoundingClientRect'), boxesOf = member(Element, 'getClientRects');
  const isShown = member(Element, 'checkVisibility'), findIn = member(Element, 'querySelector'), scrollTo = member(Element, 'scrollIntoView');
  const matches = member(Element, 'matches'), parentOf = member(Node, 'parentNode'), childrenOf = member(Node, 'childNodes');
  const firstOf = member(Node, 'firstChild'), nextOf = member(Node, 'nextSibling'), kindOf = member(Node, 'nodeType');
  const documentOf = member(Node, 'ownerDocument'), isIn = member(Node, 'isConnected'), rootOf = member(Node, 'getRootNode');
  const isEditable = member(HTMLElement, 'isContentEditable'), focusOn = member(HTMLElement, 'focus');

  const editable = e => {
    try {
      return isEditable(e);
    } catch {
      return false; // of SVG or MathML
    }
  };

  // control characters, and those that turn the direction of text
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
  const clean = (text, max) => {
    const s = String(text ?? '').slice(0, 4 * max).replace(HIDDEN, ' ').replace(/\s+/g, ' ').trim().toWellFormed();
    return s.length > max ? s.slice(0, max - 1).toWellFormed() + '…' : s;
  };
  const quote = (text, max = MAX_NAME) => JSON.stringify(clean(text, max));

  const refOf = element => {
    let n = numbers.get(element);
    if (!n) {
      numbers.set(element, n = ++last);
      elements.set(n, new WeakRef(element));
    }
    return `ref_${n}`;
  };
  // What a reference names, or 'css:SELECTOR': its first match that can be seen, else its first.
  const elementOf = ref => {
    if (ref.startsWith('css:')) {
      const found = [...document.querySelectorAll(ref.slice(4))].slice(0, 1000);
      return found.find(e => isShown(e, { visibilityProperty: true })) || found[0] || null;
    }
    const element = elements.get(Number(ref.replace(/^ref_/, '')))?.deref();
    return element && isIn(element) ? element : null;
  };

  const INPUT_ROLES = { button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
    range: 'slider', number: 'spinbutton', search: 'searchbox', file: 'file', color: 'color', date: 'date', time: 'time',
    'datetime-local': 'datetime', month: 'month', week: 'week' };
  const TAG_ROLES = { BUTTON: 'button', SUMMARY: 'button', TEXTAREA: 'textbox', IMG: 'image', IFRAME: 'iframe', DIALOG: 'dialog',
    VIDEO: 'video', AUDIO: 'audio', CANVAS: 'canvas', OPTION: 'option', TH: 'columnheader', TR: 'row', LABEL: 'label', NAV: 'navigation',
    MAIN: 'main', FORM: 'form', TABLE: 'table' };
  const CONTROLS = new Set(['button', 'link', 'textbox', 'checkbox', 'radio', 'slider', 'spinbutton', 'searchbox', 'file', 'color', 'date',
    'time', 'datetime', 'month', 'week', 'combobox', 'listbox', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'switch', 'tab',
    'treeitem', 'video', 'audio']);
  const roleOf = e => {
    const said = (attributeOf(e, 'role') || '').trim().split(/\s+/)[0].toLowerCase();
    if (/^[a-z]{1,20}$/.test(said) && said !== 'presentation' && said !== 'none')
      return said;
    const tag = tagOf(e);
    if (tag === 'A')
      return hasAttribute(e, 'href') ? 'link' : '';
    if (tag === 'INPUT')
      return e.list ? 'combobox' : INPUT_ROLES[e.type] || 'textbox';
    if (tag === 'SELECT')
      return e.multiple || e.size > 1 ? 'listbox' : 'combobox';
    if (/^H[1-6]$/.test(tag))
      return 'heading';
    if (editable(e) && !(parentOf(e) && kindOf(parentOf(e)) === 1 && editable(parentOf(e))))
      return 'textbox';
    return TAG_ROLES[tag] || '';
  };

  const levelOf = e => Number(/^[1-6]$/.exec(attributeOf(e, 'aria-level') || '')?.[0] || /^H([1-6])$/.exec(tagOf(e))?.[1] || 2);
  const byIds = (e, attribute) => (attributeOf(e, attribute) || '').split(/\s+/).slice(0, 8)
    .map(id => id && rootOf(e).getElementById?.(id)?.textContent || '').join(' ');
  // Text inside, as it is read: without what is hidden, bounded.
  const textInside = e => {
    let text = '', left = 2000;
    const add = n => {
      for (let c = firstOf(n); c && left-- > 0 && text.length < 4 * MAX_TEXT; c = nextOf(c)) {
        if (kindOf(c) === 3)
          text += c.data.slice(0, 4 * MAX_TEXT);
        else if (kindOf(c) !== 1 || /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE)$/.test(tagOf(c)) || !isShown(c))
          continue;
        else if (tagOf(c) === 'IMG')
          text += ` ${c.alt} `;
        else if (tagOf(c) === 'BR')
          text += ' ';
        else
          add(c);
      }
    };
    add(e);
    return text;
  };
  const nameOf = (e, role) => {
    const said = byIds(e, 'aria-labelledby') || attributeOf(e, 'aria-label') || '';
    if (clean(said, MAX_NAME))
      return said;
    if (tagOf(e) === 'INPUT' && role === 'button')
      return e.value || e.alt || e.title || e.type;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(tagOf(e))) {
      const label = [...(e.labels || [])].slice(0, 4).map(textInside).join(' ');
      return clean(label, MAX_NAME) || e.placeholder || e.title || e.name || '';
    }
    if (tagOf(e) === 'IMG' || tagOf(e) === 'IFRAME')
      return e.alt || e.title || e.name || '';
    if (role === 'textbox')
      return e.title || attributeOf(e, 'aria-placeholder') || '';
    return clean(textInside(e), MAX_NAME) || e.title || findIn(e, 'svg title')?.textContent || '';
  };

  const valueOf = (e, role) => {
    if (tagOf(e) === 'INPUT' && e.type === 'password')
      return e.value ? ' = (hidden)' : '';
    if (tagOf(e) === 'SELECT')
      return ` = ${quote([...e.selectedOptions].slice(0, 8).map(o => o.label).join(', '))}`;
    if (role === 'textbox' && editable(e))
      return ` = ${quote(textInside(e))}`;
    if (role === 'file')
      return e.files.length ? ` = ${quote([...e.files].slice(0, 8).map(f => f.name).join(', '))}` : '';
    return /^(INPUT|TEXTAREA)$/.test(tagOf(e)) && !/^(button|checkbox|radio)$/.test(role) && e.value ? ` = ${quote(e.value)}` : '';
  };
  const isTrue = (e, attribute) => attributeOf(e, `aria-${attribute}`) === 'true';
  const statesOf = (e, role) => {
    let s = '';
    if (e.checked || isTrue(e, 'checked'))
      s += ' checked';
    if (matches(e, ':disabled') || isTrue(e, 'disabled'))
      s += ' disabled';
    if (isTrue(e, 'selected') || role === 'option' && e.selected)
      s += ' selected';
    if (isTrue(e, 'pressed'))
      s += ' pressed';
    if (hasAttribute(e, 'aria-expanded') || tagOf(e) === 'SUMMARY')
      s += isTrue(e, 'expanded') || e.parentElement?.open ? ' open' : ' closed';
    if (e.required)
      s += ' required';
    if (e.readOnly && role !== 'checkbox' && role !== 'radio')
      s += ' readonly';
    return s;
  };

  // From a point of the inside of an iframe of this origin to one outside of it, and back.
  const frameScale = frame => {
    const r = boxOf(frame), style = getComputedStyle(frame);
    return { left: r.left, top: r.top, x: frame.offsetWidth ? r.width / frame.offsetWidth : 1, y: frame.offsetHeight ? r.height / frame.offsetHeight : 1,
      inX: frame.clientLeft + parseFloat(style.paddingLeft), inY: frame.clientTop + parseFloat(style.paddingTop) };
  };
  const frameOf = document => document.defaultView?.frameElement;
  const toTop = (document, x, y) => {
    for (let frame = frameOf(document); frame; frame = frameOf(documentOf(frame))) {
      const f = frameScale(frame);
      x = f.left + (f.inX + x) * f.x;
      y = f.top + (f.inY + y) * f.y;
    }
    return { x, y };
  };
  const offsetOf = document => toTop(document, 0, 0);

  const SKIPPED = /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|HEAD|META|LINK|TITLE|OBJECT|EMBED)$/;
  class Walk {
    constructor({ filter, max }) {
      this.filter = filter;
      this.max = max;
      this.lines = [];
      this.size = 0;
      this.left = 0;
      this.text = '';
      this.nodes = 0;
    }

    line(text) {
      if (this.left || this.size + text.length + 1 > this.max)
        this.left++;
      else {
        this.lines.push(text);
        this.size += text.length + 1;
      }
    }

    flush() {
      const text = clean(this.text, MAX_TEXT);
      this.text = '';
      if (text && this.filter !== 'interactive')
        this.line(`- text ${JSON.stringify(text)}`);
    }

    inView(e, at) {
      if (this.filter !== 'visible')
        return true;
      const r = boxOf(e);
      return r.bottom + at.y > 0 && r.top + at.y < innerHeight && r.right + at.x > 0 && r.left + at.x < innerWidth;
    }

    // Whether a click means something though the element has no role: the pointer's shape says it.
    isClickable(e, style, inPointer) {
      return !inPointer && style.cursor === 'pointer' || hasAttribute(e, 'onclick') || hasAttribute(e, 'tabindex') && Number(attributeOf(e, 'tabindex')) >= 0;
    }

    describe(e, role, style, at, inPointer) {
      const control = CONTROLS.has(role) || role !== 'label' && this.isClickable(e, style, inPointer) && e !== documentOf(e).body &&
        e !== documentOf(e).documentElement;
      if (role === 'heading') {
        this.flush();
        const inside = findIn(e, 'a[href], button');
        if (this.inView(e, at) && !inside)
          this.line(`- heading ${levelOf(e)} ${quote(nameOf(e, role))}`);
        return !inside;
      }
      if (role === 'image' && !control) {
        const name = clean(nameOf(e, role), MAX_NAME);
        if (name && this.inView(e, at))
          this.text += ` (image: ${name}) `;
        return true;
      }
      if (role === 'iframe') {
        this.flush();
        if (this.inView(e, at))
          this.frame(e);
        return true;
      }
      if (!control)
        return false;
      const name = nameOf(e, role);
      const holds = !CONTROLS.has(role) && findIn(e, 'a[href], button, input, select, textarea, [role=button], [role=link]');
      if (holds)
        return false; // it is clicked through what it holds
      this.flush();
      if (this.inView(e, at))
        this.line(`- ${role || 'clickable'} ${quote(name)} [${refOf(e)}]${statesOf(e, role)}${valueOf(e, role)}`);
      if (tagOf(e) === 'SELECT' && this.filter === 'all')
        for (const o of [...e.options].slice(0, 50))
          this.line(`  - option ${quote(o.label)}${o.selected ? ' selected' : ''}`);
      return true;
    }

    frame(e) {
      const inner = e.contentDocument?.body;
      this.line(`- iframe ${quote(nameOf(e, 'iframe'))} ${inner ? '' : `of another origin, at ${quote(e.src, 200)}: open that in a tab to read it`}`.trimEnd());
      if (inner)
        this.walk(inner, offsetOf(e.contentDocument), false);
    }

    children(e) {
      if (shadowOf(e))
        return childrenOf(shadowOf(e));
      if (tagOf(e) === 'SLOT') {
        const given = e.assignedNodes();
        if (given.length)
          return given;
      }
      return childrenOf(e);
    }

    walk(e, at, inPointer) {
      if (this.nodes++ > MAX_NODES) {
        this.left++;
        return;
      }
      if (SKIPPED.test(tagOf(e)) || attributeOf(e, 'aria-hidden') === 'true')
        return;
      const style = documentOf(e).defaultView?.getComputedStyle(e);
      if (!style || style.display === 'none')
        return;
      const inline = style.display.startsWith('inline') || style.display === 'contents';
      const cell = /^T[DH]$/.test(tagOf(e));
      if (cell)
        this.text += this.text ? ' | ' : '';
      else if (!inline)
        this.flush();
      const role = roleOf(e), seen = style.visibility === 'visible' && style.opacity !== '0' || e.type === 'checkbox' || e.type === 'radio';
      if (seen && this.describe(e, role, style, at, inPointer))
        return;
      if (role === 'dialog' && seen)
        this.line(`- dialog ${quote(attributeOf(e, 'aria-label') || byIds(e, 'aria-labelledby'))}`);
      const shown = seen && this.filter !== 'interactive' && this.inView(e, at);
      for (const c of this.children(e)) {
        if (kindOf(c) === 1)
          this.walk(c, at, inPointer || style.cursor === 'pointer');
        else if (kindOf(c) === 3 && shown && this.text.length < 4 * MAX_TEXT)
          this.text += c.data.slice(0, 4 * MAX_TEXT);
      }
      if (inline)
        this.text += ' ';
      else if (!cell)
        this.flush();
    }
  }

  const cut = (text, max) => ({ text: text.slice(0, max).toWellFormed(), left: Math.max(0, text.length - max), ...view() });
  const markdownOf = cayMarkdown({ clean, HIDDEN, MAX_TEXT, MAX_NODES, tagOf, kindOf, attributeOf, shadowOf, childrenOf, findIn, isShown });
  const snapshot = ({ filter = 'visible', max = 12000, ref } = {}) => {
    const root = ref ? elementOf(ref) : document.body;
    if (ref && !root)
      return { stale: true };
    const walk = new Walk({ filter, max });
    if (filter === 'text') {
      const whole = (root || document.documentElement).innerText || '';
      const text = whole.replace(/[^\S\n]+/g, ' ').replace(/\n{3,}/g, '\n\n').replace(HIDDEN, c => c === '\n' ? c : ' ').trim().toWellFormed();
      return cut(text, max);
    }
    if (filter === 'markdown')
      return cut(markdownOf(ref ? root : null), max);
    if (root)
      walk.walk(root, offsetOf(documentOf(root)), false);
    walk.flush();
    return { text: walk.lines.map(l => l + '\n').join(''), left: walk.left, ...view() };
  };
  const view = () => {
    const e = document.scrollingElement || document.documentElement;
    return { title: clean(document.title, 200), url: location.href.slice(0, 2000).toWellFormed(), width: innerWidth, height: innerHeight,
      scroll_y: Math.round(scrollY), page_height: e ? e.scrollHeight : 0 };
  };

  // The element at a point of a document's window, inside of shadow roots.
  const deepest = (root, x, y) => {
    let e = root.elementFromPoint(x, y);
    while (e && shadowOf(e)) {
      const inner = shadowOf(e).elementFromPoint(x, y);
      if (!inner || inner === e)
        break;
      e = inner;
    }
    return e;
  };
  // What a click at a point of the window would hit, also in iframes of this origin.
  const hitAt = (x, y) => {
    let e = deepest(document, x, y);
    while (e && tagOf(e) === 'IFRAME' && e.contentDocument) {
      const f = frameScale(e);
      x = (x - f.left) / f.x - f.inX;
      y = (y - f.top) / f.y - f.inY;
      const inner = deepest(e.contentDocument, x, y);
      if (!inner)
        break;
      e = inner;
    }
    return e;
  };
  const holds = (outer, e) => {
    for (let n = 0; e && n < 10000; e = parentOf(e) || e.host, n++)
      if (e === outer)
        return true;
    return false;
  };
  const isHit = (e, hit) => hit && (hit === e || !/^(IFRAME|OBJECT|EMBED)$/.test(tagOf(hit)) &&
    (holds(e, hit) || [...(/^(INPUT|SELECT|TEXTAREA|BUTTON)$/.test(tagOf(e)) && e.labels || [])].some(l => holds(l, hit))));

  const cornersOf = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1], [0.9, 0.9]];
  const pointOf = e => {
    const boxes = [...boxesOf(e)].filter(r => r.width > 0 && r.height > 0);
    if (!boxes.length && tagOf(e) === 'INPUT' && e.labels?.length)
      boxes.push(...[...boxesOf(e.labels[0])].filter(r => r.width > 0));
    let cover = null;
    for (const r of boxes.slice(0, 4))
      for (const [fx, fy] of cornersOf) {
        const at = toTop(documentOf(e), r.left + r.width * fx, r.top + r.height * fy), hit = hitAt(at.x, at.y);
        if (isHit(e, hit))
          return at;
        cover ??= hit;
      }
    return { cover };
  };
  // Where to click: a point of the element that nothing covers.  still: without scrolling.
  const locate = (ref, still) => {
    const e = elementOf(ref);
    if (!e)
      return { stale: true };
    const box = boxOf(e), at = offsetOf(documentOf(e));
    const out = box.top + at.y < 0 || box.bottom + at.y > innerHeight || box.left + at.x < 0 || box.right + at.x > innerWidth;
    if (out && !still)
      scrollTo(e, { block: 'center', inline: 'center', behavior: 'instant' });
    let point = pointOf(e);
    if (point.x === undefined && !still) { // in a box that scrolls
      scrollTo(e, { block: 'center', inline: 'center', behavior: 'instant' });
      point = pointOf(e);
    }
    if (point.x !== undefined)
      return point;
    if (still)
      return { error: 'it is not in view together with the other end' };
    if (!point.cover)
      return { hidden: true };
    return { covered: `${roleOf(point.cover) || /^[a-z][a-z0-9-]{0,30}$/.exec(tagOf(point.cover).toLowerCase())?.[0] || 'element'} ${quote(nameOf(point.cover, roleOf(point.cover)))}` };
  };

  const announce = e => {
    e.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    e.dispatchEvent(new Event('change', { bubbles: true }));
  };
  const fillSelect = (e, text) => {
    const options = [...e.options];
    const found = options.find(o => o.value === text) || options.find(o => clean(o.label, 1000) === text) ||
      options.find(o => clean(o.label, 1000).toLowerCase() === text.toLowerCase());
    if (!found)
      return { error: `it has no such option; it has ${options.slice(0, 20).map(o => quote(o.label, 40)).join(', ')}` };
    found.selected = true;
    announce(e);
    return {};
  };
  const hasFocus = e => {
    for (;;) {
      const root = rootOf(e);
      if (root.activeElement !== e)
        return false;
      if (kindOf(root) === 11)
        e = root.host;
      else if (!(e = frameOf(root)))
        return true;
    }
  };
  // Set the value of a control; { insert: true }: its old text is selected, and the caller types.
  const fill = (ref, text) => {
    const e = elementOf(ref);
    if (!e)
      return { stale: true };
    const role = roleOf(e);
    if (matches(e, ':disabled') || e.readOnly)
      return { error: matches(e, ':disabled') ? 'it is disabled' : 'it cannot be changed' };
    if (tagOf(e) === 'SELECT')
      return fillSelect(e, text);
    if (role === 'file')
      return { error: 'it takes files: use the action upload' };
    if (e.type === 'checkbox' || e.type === 'radio') {
      if (text !== 'true' && text !== 'false')
        return { error: "it takes the text 'true' or 'false'" };
      if (e.checked !== (text === 'true'))
        e.click();
      return e.checked === (text === 'true') ? {} : { error: 'the page did not let it change' };
    }
    if (tagOf(e) === 'INPUT' && /^(color|date|time|datetime-local|month|week|range)$/.test(e.type)) {
      e.value = text;
      if (e.value !== text)
        return { error: `this is not a value of an input of type ${e.type}` };
      announce(e);
      return {};
    }
    if (tagOf(e) !== 'INPUT' && tagOf(e) !== 'TEXTAREA' && !editable(e))
      return { error: 'no text can be put into it' };
    scrollTo(e, { block: 'center', inline: 'center', behavior: 'instant' });
    focusOn(e);
    if (!hasFocus(e))
      return { error: 'it does not take the focus' };
    if (e.select)
      e.select();
    else
      documentOf(e).defaultView.getSelection().selectAllChildren(e);
    return { insert: true };
  };

  const hasText = text => (document.body?.innerText || '').includes(text);
  const isSeen = ref => {
    const e = elementOf(ref);
    if (!e || !isShown(e, { visibilityProperty: true }))
      return false;
    const r = boxOf(e);
    return r.width > 0 && r.height > 0;
  };
  globalThis.cayPage = { snapshot, locate, fill, hasText, isSeen, view, element: elementOf };
})();
