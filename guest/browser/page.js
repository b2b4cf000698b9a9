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
  const elements = new Map(), numbers = new WeakMap();
  let last = 0;

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
      return found.find(e => e.checkVisibility({ visibilityProperty: true })) || found[0] || null;
    }
    const element = elements.get(Number(ref.replace(/^ref_/, '')))?.deref();
    return element?.isConnected ? element : null;
  };

  const INPUT_ROLES = { button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
    range: 'slider', number: 'spinbutton', search: 'searchbox', file: 'file', color: 'color', date: 'date', time: 'time',
    'datetime-local': 'datetime', month: 'month', week: 'week' };
  const TAG_ROLES = { BUTTON: 'button', SUMMARY: 'button', TEXTAREA: 'textbox', IMG: 'image', IFRAME: 'iframe', DIALOG: 'dialog',
    VIDEO: 'video', AUDIO: 'audio', CANVAS: 'canvas', OPTION: 'option', TH: 'columnheader', TR: 'row', LABEL: 'label', NAV: 'navigation',
    MAIN: 'main', FORM: 'form', TABLE: 'table' };
  const CONTROLS = new Set(['button', 'link', 'textbox', 'checkbox', 'radio', 'slider', 'spinbutton', 'searchbox', 'file', 'color', 'date',
    'time', 'datetime', 'month', 'week', 'combobox', 'listbox', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'switch', 'tab',
    'treeitem', 'gridcell-control', 'video', 'audio']);
  const roleOf = e => {
    const said = (e.getAttribute('role') || '').trim().split(/\s+/)[0].toLowerCase();
    if (/^[a-z]{1,20}$/.test(said) && said !== 'presentation' && said !== 'none')
      return said;
    const tag = e.tagName;
    if (tag === 'A')
      return e.hasAttribute('href') ? 'link' : '';
    if (tag === 'INPUT')
      return e.list ? 'combobox' : INPUT_ROLES[e.type] || 'textbox';
    if (tag === 'SELECT')
      return e.multiple || e.size > 1 ? 'listbox' : 'combobox';
    if (/^H[1-6]$/.test(tag))
      return 'heading';
    if (e.isContentEditable && !e.parentElement?.isContentEditable)
      return 'textbox';
    return TAG_ROLES[tag] || '';
  };

  const byIds = (e, attribute) => (e.getAttribute(attribute) || '').split(/\s+/).slice(0, 8)
    .map(id => id && e.getRootNode().getElementById?.(id)?.textContent || '').join(' ');
  // Text inside, as it is read: without what is hidden, bounded.
  const textInside = e => {
    let text = '', left = 2000;
    const add = n => {
      for (let c = n.firstChild; c && left-- > 0 && text.length < 4 * MAX_TEXT; c = c.nextSibling) {
        if (c.nodeType === 3)
          text += c.data.slice(0, 4 * MAX_TEXT);
        else if (c.nodeType !== 1 || /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE)$/.test(c.tagName) || !c.checkVisibility())
          continue;
        else if (c.tagName === 'IMG')
          text += ` ${c.alt} `;
        else if (c.tagName === 'BR')
          text += ' ';
        else
          add(c);
      }
    };
    add(e);
    return text;
  };
  const nameOf = (e, role) => {
    const said = byIds(e, 'aria-labelledby') || e.getAttribute('aria-label') || '';
    if (clean(said, MAX_NAME))
      return said;
    if (e.tagName === 'INPUT' && role === 'button')
      return e.value || e.alt || e.title || e.type;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName)) {
      const label = [...(e.labels || [])].slice(0, 4).map(textInside).join(' ');
      return clean(label, MAX_NAME) || e.placeholder || e.title || e.name || '';
    }
    if (e.tagName === 'IMG' || e.tagName === 'IFRAME')
      return e.alt || e.title || e.name || '';
    if (role === 'textbox')
      return e.title || e.getAttribute('aria-placeholder') || '';
    return clean(textInside(e), MAX_NAME) || e.title || e.querySelector?.('svg title')?.textContent || '';
  };

  const valueOf = (e, role) => {
    if (e.tagName === 'INPUT' && e.type === 'password')
      return e.value ? ' = (hidden)' : '';
    if (e.tagName === 'SELECT')
      return ` = ${quote([...e.selectedOptions].slice(0, 8).map(o => o.label).join(', '))}`;
    if (role === 'textbox' && e.isContentEditable)
      return ` = ${quote(textInside(e))}`;
    if (role === 'file')
      return e.files.length ? ` = ${quote([...e.files].slice(0, 8).map(f => f.name).join(', '))}` : '';
    return /^(INPUT|TEXTAREA)$/.test(e.tagName) && !/^(button|checkbox|radio)$/.test(role) && e.value ? ` = ${quote(e.value)}` : '';
  };
  const isTrue = (e, attribute) => e.getAttribute(`aria-${attribute}`) === 'true';
  const statesOf = (e, role) => {
    let s = '';
    if (e.checked || isTrue(e, 'checked'))
      s += ' checked';
    if (e.disabled || isTrue(e, 'disabled'))
      s += ' disabled';
    if (isTrue(e, 'selected') || role === 'option' && e.selected)
      s += ' selected';
    if (isTrue(e, 'pressed'))
      s += ' pressed';
    if (e.hasAttribute('aria-expanded') || e.tagName === 'SUMMARY')
      s += isTrue(e, 'expanded') || e.parentElement?.open ? ' open' : ' closed';
    if (e.required)
      s += ' required';
    if (e.readOnly && role !== 'checkbox' && role !== 'radio')
      s += ' readonly';
    return s;
  };

  // How far an iframe of this site lies from the edge of the window.
  const offsetOf = document => {
    let x = 0, y = 0;
    for (let frame = document.defaultView?.frameElement; frame; frame = frame.ownerDocument.defaultView?.frameElement) {
      const r = frame.getBoundingClientRect();
      x += r.left + frame.clientLeft;
      y += r.top + frame.clientTop;
    }
    return { x, y };
  };

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
      const r = e.getBoundingClientRect();
      return r.bottom + at.y > 0 && r.top + at.y < innerHeight && r.right + at.x > 0 && r.left + at.x < innerWidth;
    }

    // Whether a click means something though the element has no role: the pointer's shape says it.
    isClickable(e, style, inPointer) {
      return !inPointer && style.cursor === 'pointer' || e.hasAttribute('onclick') || e.tabIndex >= 0 && e.hasAttribute('tabindex');
    }

    describe(e, role, style, at, inPointer) {
      const control = CONTROLS.has(role) || role !== 'label' && this.isClickable(e, style, inPointer) && e !== e.ownerDocument.body &&
        e !== e.ownerDocument.documentElement;
      if (role === 'heading') {
        this.flush();
        const inside = e.querySelector('a[href], button');
        if (this.inView(e, at) && !inside)
          this.line(`- heading ${e.getAttribute('aria-level')?.slice(0, 1) || e.tagName[1] || 2} ${quote(nameOf(e, role))}`);
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
      const holds = !CONTROLS.has(role) && e.querySelector('a[href], button, input, select, textarea, [role=button], [role=link]');
      if (holds)
        return false; // it is clicked through what it holds
      this.flush();
      if (this.inView(e, at))
        this.line(`- ${role || 'clickable'} ${quote(name)} [${refOf(e)}]${statesOf(e, role)}${valueOf(e, role)}`);
      if (e.tagName === 'SELECT' && this.filter === 'all')
        for (const o of [...e.options].slice(0, 50))
          this.line(`  - option ${quote(o.label)}${o.selected ? ' selected' : ''}`);
      return true;
    }

    frame(e) {
      const inner = e.contentDocument?.body;
      this.line(`- iframe ${quote(nameOf(e, 'iframe'))} ${inner ? '' : `of another site, at ${quote(e.src, 200)}: open that in a tab to read it`}`.trimEnd());
      if (inner)
        this.walk(inner, offsetOf(e.contentDocument), false);
    }

    children(e) {
      if (e.shadowRoot)
        return e.shadowRoot.childNodes;
      if (e.tagName === 'SLOT') {
        const given = e.assignedNodes();
        if (given.length)
          return given;
      }
      return e.childNodes;
    }

    walk(e, at, inPointer) {
      if (this.nodes++ > MAX_NODES || SKIPPED.test(e.tagName) || e.getAttribute('aria-hidden') === 'true')
        return;
      const style = e.ownerDocument.defaultView?.getComputedStyle(e);
      if (!style || style.display === 'none')
        return;
      const inline = style.display.startsWith('inline') || style.display === 'contents';
      const cell = /^T[DH]$/.test(e.tagName);
      if (cell)
        this.text += this.text ? ' | ' : '';
      else if (!inline)
        this.flush();
      const role = roleOf(e), seen = style.visibility === 'visible' && style.opacity !== '0' || e.type === 'checkbox' || e.type === 'radio';
      if (seen && this.describe(e, role, style, at, inPointer))
        return;
      if (role === 'dialog' && seen)
        this.line(`- dialog ${quote(e.getAttribute('aria-label') || byIds(e, 'aria-labelledby'))}`);
      const shown = seen && this.filter !== 'interactive' && this.inView(e, at);
      for (const c of this.children(e)) {
        if (c.nodeType === 1)
          this.walk(c, at, inPointer || style.cursor === 'pointer');
        else if (c.nodeType === 3 && shown && this.text.length < 4 * MAX_TEXT)
          this.text += c.data.slice(0, 4 * MAX_TEXT);
      }
      if (inline)
        this.text += ' ';
      else if (!cell)
        this.flush();
    }
  }

  const snapshot = ({ filter = 'visible', max = 12000, ref } = {}) => {
    const root = ref ? elementOf(ref) : document.body;
    if (ref && !root)
      return { stale: true };
    const walk = new Walk({ filter, max });
    if (filter === 'text') {
      const whole = (root || document.documentElement).innerText || '';
      const text = whole.replace(/[^\S\n]+/g, ' ').replace(/\n{3,}/g, '\n\n').replace(HIDDEN, c => c === '\n' ? c : ' ').trim().toWellFormed();
      return { text: text.slice(0, max).toWellFormed(), left: Math.max(0, text.length - max), ...view() };
    }
    if (root)
      walk.walk(root, offsetOf(root.ownerDocument), false);
    walk.flush();
    return { text: walk.lines.map(l => l + '\n').join(''), left: walk.left, ...view() };
  };
  const view = () => {
    const e = document.scrollingElement || document.documentElement;
    return { title: clean(document.title, 200), url: location.href.slice(0, 2000).toWellFormed(), width: innerWidth, height: innerHeight,
      scroll_y: Math.round(scrollY), page_height: e ? e.scrollHeight : 0 };
  };

  // The element at a point of its document's window, inside of shadow roots.
  const deepest = (root, x, y) => {
    let e = root.elementFromPoint(x, y);
    while (e?.shadowRoot) {
      const inner = e.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === e)
        break;
      e = inner;
    }
    return e;
  };
  const holds = (outer, e) => {
    for (; e; e = e.parentNode || e.host)
      if (e === outer)
        return true;
    return false;
  };
  const isHit = (e, hit) => hit && (holds(e, hit) || holds(hit, e) && hit.contains(e) && getComputedStyle(e).pointerEvents === 'none' ||
    [...(e.labels || [])].some(l => holds(l, hit)));

  // Where to click: a point of the element that nothing covers.
  const locate = ref => {
    const e = elementOf(ref);
    if (!e)
      return { stale: true };
    let box = e.getBoundingClientRect();
    const at = offsetOf(e.ownerDocument);
    const out = r => r.top + at.y < 0 || r.bottom + at.y > innerHeight || r.left + at.x < 0 || r.right + at.x > innerWidth;
    if (out(box))
      e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    const off = offsetOf(e.ownerDocument);
    const boxes = [...e.getClientRects()].filter(r => r.width > 0 && r.height > 0);
    if (!boxes.length && e.labels?.length)
      boxes.push(...[...e.labels[0].getClientRects()].filter(r => r.width > 0));
    if (!boxes.length)
      return { hidden: true };
    let cover = null;
    for (const r of boxes.slice(0, 4))
      for (const [fx, fy] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1], [0.9, 0.9]]) {
        const x = r.left + r.width * fx, y = r.top + r.height * fy, hit = deepest(e.ownerDocument, x, y);
        if (isHit(e, hit))
          return { x: x + off.x, y: y + off.y };
        cover ??= hit;
      }
    if (!cover)
      return { hidden: true };
    return { covered: `${roleOf(cover) || cover.tagName.toLowerCase()} ${quote(nameOf(cover, roleOf(cover)))}` };
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
  // Set the value of a control; { insert: true }: its old text is selected, and the caller types.
  const fill = (ref, text) => {
    const e = elementOf(ref);
    if (!e)
      return { stale: true };
    const role = roleOf(e);
    if (e.disabled || e.readOnly)
      return { error: e.disabled ? 'it is disabled' : 'it cannot be changed' };
    if (e.tagName === 'SELECT')
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
    if (e.tagName === 'INPUT' && /^(color|date|time|datetime-local|month|week|range)$/.test(e.type)) {
      e.value = text;
      if (e.value !== text)
        return { error: `this is not a value of an input of type ${e.type}` };
      announce(e);
      return {};
    }
    if (e.tagName !== 'INPUT' && e.tagName !== 'TEXTAREA' && !e.isContentEditable)
      return { error: 'no text can be put into it' };
    e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    e.focus();
    if (e.select)
      e.select();
    else
      e.ownerDocument.defaultView.getSelection().selectAllChildren(e);
    return { insert: true };
  };

  const hasText = text => (document.body?.innerText || '').includes(text);
  const isSeen = ref => {
    const e = elementOf(ref), r = e?.getBoundingClientRect();
    return !!e && e.checkVisibility({ visibilityProperty: true }) && r.width > 0 && r.height > 0;
  };
  globalThis.cayPage = { snapshot, locate, fill, hasText, isSeen, view, element: elementOf };
})();
